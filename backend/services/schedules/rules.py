"""Rules of schedules: which due times start a run at a given time, and which were missed."""

from typing import Final, NamedTuple

from backend.services.workflows.cron import due_until
from backend.services.workflows.schedule_outcomes import Missed, definition_of, label_of
from backend.services.workflows.schedules import following
from backend.storage.tables.schedules import ScheduleRow

GRACE_MS: Final = 120_000
"""Age in milliseconds from which a due time counts as missed: no process ran, or the clock was put forward."""

MOST_COUNTED: Final = 10_000
"""Missed due times are counted up to this number."""


class DueStart(NamedTuple):
    """A decision on a schedule that is due.

    Attributes:
        due_at: The due time to start; None if all due times were missed.
        missed: Due times before it that are skipped.
        next_at: The first due time after all of them.
        from_queue: Whether the due time was queued until the end of a run.
    """

    due_at: int | None
    missed: Missed | None
    next_at: int | None
    from_queue: bool = False


def due_start(row: ScheduleRow, now: int) -> DueStart | None:
    """Decides on the due times up to now of a schedule that is not paused; None if no time is due."""
    if row.next_at is None or row.next_at > now:
        return None
    if row.name is None:
        # A planned start has one time, and starts even when late.
        return DueStart(row.next_at, None, None)
    definition = definition_of(row)
    cron, zone = definition["cron"], definition["timezone"]
    oldest = now - GRACE_MS
    if row.next_at >= oldest:
        return DueStart(row.next_at, None, following(definition, row.next_at))
    count, last = due_until(cron, zone, row.next_at, oldest - 1, MOST_COUNTED)
    following_at = following(definition, last)
    if following_at is not None and following_at <= now:
        # The newest due time is not missed.
        return DueStart(following_at, Missed(count, row.next_at, last), following(definition, following_at))
    if definition["catch_up"] == "none":
        return DueStart(None, Missed(count, row.next_at, last), following_at)
    return DueStart(last, _missed_before(row.next_at, last, count, cron, zone), following_at)


def _missed_before(first: int, last: int, count: int, cron: str, zone: str) -> Missed | None:
    if first == last:
        return None
    _, before = due_until(cron, zone, first, last - 1, MOST_COUNTED)
    return Missed(max(1, count - 1), first, before)


def idempotency_key(row: ScheduleRow, due_at: int) -> str:
    """Returns the idempotency key of a due start; its tabs make it differ from all keys of callers."""
    return f"schedule\t{row.workflow_id}\t{label_of(row)}\t{due_at}"
