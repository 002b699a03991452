"""WebhooksService over gRPC: webhooks of keys, and their deliveries, for administrators."""

import grpc

from backend.common.clock import MAX_MS
from backend.common.paging import Paging
from backend.rpc.callers import principal_of
from backend.services.dependencies import Services
from backend.services.webhooks import sql
from backend.services.webhooks.administration import WebhookAdministration, require_webhook
from backend.services.webhooks.messages import delivery_message, webhook_message
from backend.settings import WebhookSettings
from backend.storage.database import Tx
from backend.storage.tables.webhooks import WebhookDeliveryRow, WebhookRow
from workflow_api.v1 import webhooks_pb2, webhooks_pb2_grpc


class WebhooksServicer(webhooks_pb2_grpc.WebhooksServiceServicer):
    """Administers webhooks and shows their deliveries."""

    def __init__(self, services: Services, settings: WebhookSettings) -> None:
        self._services = services
        self._administration = WebhookAdministration(services, settings)

    def CreateWebhook(
        self, request: webhooks_pb2.CreateWebhookRequest, context: grpc.ServicerContext
    ) -> webhooks_pb2.WebhookWithSecret:
        """Creates a webhook and shows its secret once."""
        return self._with_secret(self._administration.create(request, principal_of(context).audit_name))

    def GetWebhook(
        self, request: webhooks_pb2.GetWebhookRequest, context: grpc.ServicerContext
    ) -> webhooks_pb2.Webhook:
        """Returns one webhook."""

        def work(tx: Tx) -> tuple[WebhookRow, int]:
            return require_webhook(tx, request.webhook_id), sql.count_pending(tx, request.webhook_id)

        row, pending = self._services.database.read(work)
        return webhook_message(row, pending, self._services.clock())

    def ListWebhooks(
        self, request: webhooks_pb2.ListWebhooksRequest, context: grpc.ServicerContext
    ) -> webhooks_pb2.ListWebhooksResponse:
        """Returns webhooks, newest first."""
        key_id = request.key_id if request.HasField("key_id") else None
        paging = Paging(self._services.cursors, request, of=key_id or "")
        before, before_id = paging.after or (MAX_MS, "")

        def work(tx: Tx) -> tuple[list[tuple[WebhookRow, int]], str | None]:
            rows = sql.newest(tx, key_id, before=int(before), before_id=str(before_id), limit=paging.rows_to_read)
            shown, token = paging.cut(rows, lambda row: (row.created_at, row.webhook_id))
            return [(row, sql.count_pending(tx, row.webhook_id)) for row in shown], token

        counted, token = self._services.database.read(work)
        now = self._services.clock()
        return webhooks_pb2.ListWebhooksResponse(
            items=[webhook_message(row, pending, now) for row, pending in counted], next_page_token=token
        )

    def UpdateWebhook(
        self, request: webhooks_pb2.UpdateWebhookRequest, context: grpc.ServicerContext
    ) -> webhooks_pb2.Webhook:
        """Changes every field that is set."""
        return self._message(self._administration.update(request, principal_of(context).audit_name))

    def RotateWebhookSecret(
        self, request: webhooks_pb2.RotateWebhookSecretRequest, context: grpc.ServicerContext
    ) -> webhooks_pb2.WebhookWithSecret:
        """Issues a new secret and shows it once."""
        return self._with_secret(self._administration.rotate(request, principal_of(context).audit_name))

    def PauseWebhook(
        self, request: webhooks_pb2.PauseWebhookRequest, context: grpc.ServicerContext
    ) -> webhooks_pb2.Webhook:
        """Stops deliveries."""
        return self._message(self._administration.pause(request.webhook_id, principal_of(context).audit_name))

    def ResumeWebhook(
        self, request: webhooks_pb2.ResumeWebhookRequest, context: grpc.ServicerContext
    ) -> webhooks_pb2.Webhook:
        """Resumes deliveries."""
        return self._message(self._administration.resume(request.webhook_id, principal_of(context).audit_name))

    def DeleteWebhook(
        self, request: webhooks_pb2.DeleteWebhookRequest, context: grpc.ServicerContext
    ) -> webhooks_pb2.DeleteWebhookResponse:
        """Deletes a webhook."""
        self._administration.delete(request.webhook_id, principal_of(context).audit_name)
        return webhooks_pb2.DeleteWebhookResponse()

    def ListWebhookDeliveries(
        self, request: webhooks_pb2.ListWebhookDeliveriesRequest, context: grpc.ServicerContext
    ) -> webhooks_pb2.ListWebhookDeliveriesResponse:
        """Returns deliveries, newest first."""
        paging = Paging(self._services.cursors, request, of=request.webhook_id)
        before, before_id = paging.after or (MAX_MS, "")

        def work(tx: Tx) -> list[WebhookDeliveryRow]:
            require_webhook(tx, request.webhook_id)
            return sql.deliveries(
                tx, request.webhook_id, before=int(before), before_id=str(before_id), limit=paging.rows_to_read
            )

        shown, token = paging.cut(self._services.database.read(work), lambda row: (row.occurred_at, row.message_id))
        return webhooks_pb2.ListWebhookDeliveriesResponse(
            items=[delivery_message(row) for row in shown], next_page_token=token
        )

    def RedeliverWebhookMessage(
        self, request: webhooks_pb2.RedeliverWebhookMessageRequest, context: grpc.ServicerContext
    ) -> webhooks_pb2.WebhookDelivery:
        """Delivers a message once more."""
        actor = principal_of(context).audit_name
        return delivery_message(self._administration.redeliver(request.webhook_id, request.message_id, actor))

    def _message(self, row: WebhookRow) -> webhooks_pb2.Webhook:
        pending = self._services.database.read(lambda tx: sql.count_pending(tx, row.webhook_id))
        return webhook_message(row, pending, self._services.clock())

    def _with_secret(self, row: WebhookRow) -> webhooks_pb2.WebhookWithSecret:
        return webhooks_pb2.WebhookWithSecret(webhook=self._message(row), secret=row.secret)
