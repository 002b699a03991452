"""Administration of webhooks: each change is one audited transaction."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from backend.common.errors import ApiError, invalid
from backend.common.ids import new_id
from backend.services.audit import sql as audit
from backend.services.dependencies import Services
from backend.services.webhooks import delivery_sql, sql
from backend.services.webhooks.attempts import new_secret
from backend.services.webhooks.messages import EVENTS, events_of
from backend.services.webhooks.rules import (
    RUN_EVENTS,
    PausedReason,
    WebhookEvent,
    delivery_lock,
    networks,
    url_problems,
)
from backend.settings import WebhookSettings
from backend.storage.database import Tx
from backend.storage.tables.webhooks import WebhookDeliveryRow, WebhookRow
from contract.fields import given_or_default_duration
from contract.times import milliseconds_of
from workflow_api.v1 import errors_pb2, webhooks_pb2

MOST_OF_KEY: Final = 10


class WebhookAdministration:
    """Creates, changes, rotates, pauses, resumes and deletes webhooks, and redelivers messages."""

    def __init__(self, services: Services, settings: WebhookSettings) -> None:
        self._services = services
        self._private_networks = networks(settings.private_networks)

    def create(self, request: webhooks_pb2.CreateWebhookRequest, actor: str) -> WebhookRow:
        """Creates a webhook of a key that is not revoked."""
        self._check_url(request.url)
        events = _events(request.events) if request.events else RUN_EVENTS
        now = self._services.clock()
        row = WebhookRow(
            webhook_id=new_id("wh"),
            key_id=request.key_id,
            url=request.url,
            description=request.description,
            **_flags(events),
            secret=new_secret(),
            previous_secret=None,
            previous_secret_expires_at=None,
            created_at=now,
            paused_at=None,
            paused_reason=None,
            failing_since=None,
        )

        def work(tx: Tx) -> WebhookRow:
            key = sql.key_state(tx, request.key_id)
            if key is None:
                raise ApiError(errors_pb2.ERROR_REASON_NOT_FOUND, f"There is no key {request.key_id}.")
            if key.revoked_at is not None:
                raise invalid("key_id", "must name a key that is not revoked")
            if sql.count_of_key(tx, request.key_id) >= MOST_OF_KEY:
                raise invalid("key_id", f"must name a key with fewer than {MOST_OF_KEY} webhooks: delete one first")
            sql.add(tx, row)
            self._audit(tx, actor, "webhook.created", row, {"key_id": row.key_id, **_audit_details(row)})
            return row

        return self._services.database.write(work)

    def update(self, request: webhooks_pb2.UpdateWebhookRequest, actor: str) -> WebhookRow:
        """Changes the fields that the request names."""
        if request.HasField("url"):
            self._check_url(request.url)
        flags = _flags(_events(request.events.events)) if request.HasField("events") else {}

        def change(row: WebhookRow) -> WebhookRow:
            given = {name: getattr(request, name) for name in ("url", "description") if request.HasField(name)}
            return WebhookRow(**{**row._asdict(), **given, **flags})

        return self._change(request.webhook_id, actor, "webhook.edited", change, _audit_details)

    def rotate(self, request: webhooks_pb2.RotateWebhookSecretRequest, actor: str) -> WebhookRow:
        """Issues a new secret; the present secret signs too for the overlap, an older overlap ends."""
        overlap_ms = milliseconds_of(given_or_default_duration(request, "overlap"))
        secret = new_secret()

        def change(row: WebhookRow) -> WebhookRow:
            expires_at = self._services.clock() + overlap_ms
            return row._replace(secret=secret, previous_secret=row.secret, previous_secret_expires_at=expires_at)

        return self._change(request.webhook_id, actor, "webhook.rotated", change)

    def pause(self, webhook_id: str, actor: str) -> WebhookRow:
        """Stops deliveries; pausing again changes nothing."""

        def work(tx: Tx) -> WebhookRow:
            row = require_webhook(tx, webhook_id)
            if delivery_sql.pause(tx, webhook_id, PausedReason.REQUESTED, self._services.clock()):
                self._audit(tx, actor, "webhook.paused", row, {"reason": PausedReason.REQUESTED})
            return require_webhook(tx, webhook_id)

        return self._services.database.write(work)

    def resume(self, webhook_id: str, actor: str) -> WebhookRow:
        """Makes waiting messages due, with all attempts again; resuming an active webhook changes nothing."""

        def work(tx: Tx) -> WebhookRow:
            row = require_webhook(tx, webhook_id)
            if row.paused_at is None:
                return row
            resumed = row._replace(paused_at=None, paused_reason=None, failing_since=None)
            sql.edit(tx, resumed)
            delivery_sql.restart_messages(tx, webhook_id, self._services.clock())
            self._audit(tx, actor, "webhook.resumed", row)
            return resumed

        return self._services.database.write(work)

    def delete(self, webhook_id: str, actor: str) -> None:
        """Removes a webhook with its deliveries."""

        def work(tx: Tx) -> None:
            row = require_webhook(tx, webhook_id)
            sql.remove(tx, webhook_id)
            self._audit(tx, actor, "webhook.deleted", row, {"key_id": row.key_id})

        self._services.database.write(work)

    def redeliver(self, webhook_id: str, message_id: str, actor: str) -> WebhookDeliveryRow:
        """Makes a message due now, whether it waits or its delivery has ended."""

        def delivery(tx: Tx) -> WebhookDeliveryRow:
            row = sql.delivery(tx, webhook_id, message_id)
            if row is None:
                message = f"There is no message {message_id} to webhook {webhook_id}."
                raise ApiError(errors_pb2.ERROR_REASON_NOT_FOUND, message)
            return row

        def work(tx: Tx) -> WebhookDeliveryRow:
            delivery_sql.redeliver(tx, webhook_id, message_id, self._services.clock())
            self._audit(tx, actor, "webhook.redelivered", require_webhook(tx, webhook_id), {"message_id": message_id})
            return delivery(tx)

        run_id = self._services.database.read(delivery).run_id
        return self._services.database.write(work, lock_key=delivery_lock(message_id, run_id))

    def _check_url(self, url: str) -> None:
        problems = [("url", why) for why in url_problems(url, self._private_networks)]
        if problems:
            raise ApiError(errors_pb2.ERROR_REASON_INVALID_REQUEST, problems=problems)

    def _change(
        self,
        webhook_id: str,
        actor: str,
        action: str,
        change: Callable[[WebhookRow], WebhookRow],
        shown: Callable[[WebhookRow], dict[str, object]] = lambda _row: {},
    ) -> WebhookRow:
        def work(tx: Tx) -> WebhookRow:
            changed = change(require_webhook(tx, webhook_id))
            sql.edit(tx, changed)
            self._audit(tx, actor, action, changed, shown(changed))
            return changed

        return self._services.database.write(work)

    def _audit(
        self, tx: Tx, actor: str, action: str, row: WebhookRow, details: dict[str, object] | None = None
    ) -> None:
        at = self._services.clock()
        audit.record(tx, at=at, actor=actor, action=action, target=row.webhook_id, details=details)


def require_webhook(tx: Tx, webhook_id: str) -> WebhookRow:
    """Returns the webhook of an id.

    Raises:
        ApiError: `not_found`.
    """
    row = sql.get(tx, webhook_id)
    if row is None:
        raise ApiError(errors_pb2.ERROR_REASON_NOT_FOUND, f"There is no webhook {webhook_id}.")
    return row


def _events(numbers: Sequence[int]) -> tuple[WebhookEvent, ...]:
    if not numbers or any(number not in EVENTS for number in numbers):
        raise invalid("events", f"must name at least one of: {', '.join(WebhookEvent)}")
    return tuple(event for number, event in EVENTS.items() if number in numbers)


def _flags(events: Iterable[WebhookEvent]) -> dict[str, int]:
    named = set(events)
    return {
        "run_ended": int(WebhookEvent.RUN_ENDED in named),
        "run_waiting_for_approval": int(WebhookEvent.RUN_WAITING in named),
        "run_erased": int(WebhookEvent.RUN_ERASED in named),
        "approval_reminded": int(WebhookEvent.APPROVAL_REMINDED in named),
        "approval_expired": int(WebhookEvent.APPROVAL_EXPIRED in named),
        "schedule_skipped": int(WebhookEvent.SCHEDULE_SKIPPED in named),
        "schedule_failed": int(WebhookEvent.SCHEDULE_FAILED in named),
    }


def _audit_details(row: WebhookRow) -> dict[str, object]:
    """Returns the details for the audit trail, without paths and queries of addresses, which may be secrets."""
    from yarl import URL

    return {"origin": str(URL(row.url).origin()), "events": [str(event) for event in events_of(row)]}
