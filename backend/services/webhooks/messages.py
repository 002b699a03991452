"""Converts rows of webhooks and deliveries to messages."""

from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp

from backend.services.webhooks.rules import DeliveryState, WebhookEvent
from backend.storage.tables.webhooks import WebhookDeliveryRow, WebhookRow
from contract.times import to_timestamp
from workflow_api.v1 import webhooks_pb2

EVENT_NUMBERS: Final = {
    WebhookEvent.RUN_ENDED: webhooks_pb2.WEBHOOK_EVENT_RUN_ENDED,
    WebhookEvent.RUN_WAITING: webhooks_pb2.WEBHOOK_EVENT_RUN_WAITING_FOR_APPROVAL,
    WebhookEvent.RUN_ERASED: webhooks_pb2.WEBHOOK_EVENT_RUN_ERASED,
    WebhookEvent.APPROVAL_REMINDED: webhooks_pb2.WEBHOOK_EVENT_APPROVAL_REMINDED,
    WebhookEvent.APPROVAL_EXPIRED: webhooks_pb2.WEBHOOK_EVENT_APPROVAL_EXPIRED,
    WebhookEvent.SCHEDULE_SKIPPED: webhooks_pb2.WEBHOOK_EVENT_SCHEDULE_SKIPPED,
    WebhookEvent.SCHEDULE_FAILED: webhooks_pb2.WEBHOOK_EVENT_SCHEDULE_FAILED,
}
EVENTS: Final = {number: event for event, number in EVENT_NUMBERS.items()}
_STATES: Final = {
    DeliveryState.PENDING: webhooks_pb2.WEBHOOK_DELIVERY_STATE_PENDING,
    DeliveryState.DELIVERED: webhooks_pb2.WEBHOOK_DELIVERY_STATE_DELIVERED,
    DeliveryState.FAILED: webhooks_pb2.WEBHOOK_DELIVERY_STATE_FAILED,
}


def events_of(row: WebhookRow) -> list[WebhookEvent]:
    """Returns the events that a webhook subscribes to."""
    flags = {
        WebhookEvent.RUN_ENDED: row.run_ended,
        WebhookEvent.RUN_WAITING: row.run_waiting_for_approval,
        WebhookEvent.RUN_ERASED: row.run_erased,
        WebhookEvent.APPROVAL_REMINDED: row.approval_reminded,
        WebhookEvent.APPROVAL_EXPIRED: row.approval_expired,
        WebhookEvent.SCHEDULE_SKIPPED: row.schedule_skipped,
        WebhookEvent.SCHEDULE_FAILED: row.schedule_failed,
    }
    return [event for event, flag in flags.items() if flag]


def webhook_message(row: WebhookRow, pending: int, now: int) -> webhooks_pb2.Webhook:
    """Returns a webhook as administrators see it, without its secrets."""
    overlaps = row.previous_secret_expires_at is not None and row.previous_secret_expires_at > now
    return webhooks_pb2.Webhook(
        webhook_id=row.webhook_id,
        key_id=row.key_id,
        url=row.url,
        description=row.description,
        events=[EVENT_NUMBERS[event] for event in events_of(row)],
        state="active" if row.paused_at is None else "paused",
        paused_reason=row.paused_reason,
        paused_at=_time(row.paused_at),
        created_at=to_timestamp(row.created_at),
        rotating_until=_time(row.previous_secret_expires_at) if overlaps else None,
        failing_since=_time(row.failing_since),
        deliveries_pending=pending,
    )


def delivery_message(row: WebhookDeliveryRow) -> webhooks_pb2.WebhookDelivery:
    """Returns a delivery as administrators see it."""
    return webhooks_pb2.WebhookDelivery(
        message_id=row.message_id,
        webhook_id=row.webhook_id,
        event=EVENT_NUMBERS[WebhookEvent(row.event)],
        run_id=row.run_id or "",
        occurred_at=to_timestamp(row.occurred_at),
        state=_STATES[DeliveryState(row.state)],
        attempts=row.attempts,
        last_attempt_at=_time(row.last_attempt_at),
        last_status=row.last_status,
        last_error=row.last_error,
        next_attempt_at=_time(row.due_at),
        finished_at=_time(row.finished_at),
    )


def _time(milliseconds: int | None) -> Timestamp | None:
    return None if milliseconds is None else to_timestamp(milliseconds)
