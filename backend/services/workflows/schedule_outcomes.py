"""Records the outcomes of due times: audit records, webhook messages, and the last outcome in the schedule's row."""

import json
import logging
from enum import StrEnum
from typing import Final, NamedTuple

from backend.common.clock import to_text
from backend.common.errors import ApiError
from backend.common.json_text import JsonObject, canonical
from backend.services.audit import sql as audit
from backend.services.notifications.rules import NotificationEvent
from backend.services.notifications.sql import notify
from backend.services.webhooks.rules import WebhookEvent
from backend.services.webhooks.sql import add_schedule_messages
from backend.storage.database import Tx
from backend.storage.tables.schedules import ScheduleRow

ACTOR: Final = "system"

_LOG = logging.getLogger(__name__)


class Outcome(StrEnum):
    """Outcomes of due times."""

    STARTED = "started"
    SKIPPED = "skipped"
    QUEUED = "queued"
    FAILED = "failed"


class SkipReason(StrEnum):
    """Reasons for which a due time starts nothing."""

    MISSED = "missed"
    IN_FLIGHT = "in_flight"
    QUEUE_FULL = "queue_full"
    PAUSED = "paused"
    REMOVED = "removed"


class Missed(NamedTuple):
    """Due times that are skipped: number, first and last."""

    number: int
    first: int
    last: int


def definition_of(row: ScheduleRow) -> JsonObject:
    """Returns a schedule's entry in the manifest, or the body of a planned start."""
    found: JsonObject = json.loads(row.definition)
    return found


def label_of(row: ScheduleRow) -> str:
    """Returns the name of a schedule, or the id of a planned start."""
    return row.schedule_id if row.name is None else row.name


def with_outcome(
    row: ScheduleRow,
    outcome: Outcome,
    due_at: int | None,
    now: int,
    *,
    run_id: str | None = None,
    reason: str | None = None,
) -> ScheduleRow:
    """Returns a schedule's row with a new last outcome; `due_at` is None if a person started the run."""
    return row._replace(
        last_due_at=due_at, last_at=now, last_outcome=outcome.value, last_run_id=run_id, last_reason=reason
    )


def skip(
    tx: Tx, row: ScheduleRow, reason: SkipReason, missed: Missed, now: int, *, run_id: str | None = None
) -> ScheduleRow:
    """Records skipped due times by an audit record and webhook messages; returns the changed row."""
    details: JsonObject = {
        "schedule": label_of(row),
        "reason": reason.value,
        "due_at": to_text(missed.last),
        "count": missed.number,
        "first_due_at": to_text(missed.first),
    }
    _report(tx, WebhookEvent.SCHEDULE_SKIPPED, row, details, now)
    return with_outcome(row, Outcome.SKIPPED, missed.last, now, run_id=run_id, reason=reason.value)


def skip_queued(tx: Tx, row: ScheduleRow, reason: SkipReason, now: int) -> ScheduleRow:
    """Skips the queued due time of a schedule, if any, as `skip`; returns the row without it."""
    if row.waiting_at is None:
        return row
    return skip(tx, row, reason, Missed(1, row.waiting_at, row.waiting_at), now)._replace(waiting_at=None)


def fail(tx: Tx, row: ScheduleRow, due_at: int, refusal: ApiError, now: int) -> ScheduleRow:
    """Records that the start of a due time was refused, as `skip`."""
    code = refusal.to_refusal().code
    message = " ".join([refusal.message, *(f"{name} {why}." for name, why in refusal.problems), *refusal.reasons])
    details: JsonObject = {
        "schedule": label_of(row),
        "reason": code,
        "message": message,
        "due_at": to_text(due_at),
    }
    _report(tx, WebhookEvent.SCHEDULE_FAILED, row, details, now)
    return with_outcome(row, Outcome.FAILED, due_at, now, reason=f"{code}: {message}")


def _report(tx: Tx, event: WebhookEvent, row: ScheduleRow, details: JsonObject, now: int) -> None:
    audit.record(tx, at=now, actor=ACTOR, action=event.value, target=row.workflow_id, details=details)
    add_schedule_messages(tx, event, row.workflow_id, canonical({"workflow_id": row.workflow_id, **details}), now)
    notification_details = {"schedule": label_of(row), "reason": str(details["reason"])}
    notify(tx, NotificationEvent(event), row.schedule_id, notification_details, now, workflow_id=row.workflow_id)
    _LOG.warning("%s of workflow %s: %s", event.value, row.workflow_id, details["reason"])
