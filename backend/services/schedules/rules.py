"""Rules of schedules: which due times are decided at a moment, and how."""

from typing import Final, NamedTuple

from backend.services.workflows.cron import due_until
from backend.services.workflows.schedule_outcomes import Missed, definition_of, label_of
from backend.services.workflows.schedules import following
from backend.storage.tables.schedules import ScheduleRow

GRACE_MS: Final = 120_000
"""A due time that is older counts as missed: nothing ran, or the clock has been put forward."""

MOST_COUNTED: Final = 10_000
"""Missed due times are counted up to this number."""


class DueStart(NamedTuple):
    """A decision on a schedule that is due.

    Attributes:
        due_at: The due time to start; None where all that are due were missed.
        missed: Those before it that are skipped.
        next_at: The first due time after all of these.
        from_queue: Whether it has waited for the end of a run.
    """

    due_at: int | None
    missed: Missed | None
    next_at: int | None
    from_queue: bool = False


def due_start(row: ScheduleRow, now: int) -> DueStart | None:
    """Decides on the due times up to now of a schedule that is not paused; None where there is none."""
    if row.next_at is None or row.next_at > now:
        return None
    if row.name is None:
        # A planned start is of one time, which nothing replaces.
        return DueStart(row.next_at, None, None)
    definition = definition_of(row)
    cron, zone = definition["cron"], definition["timezone"]
    oldest = now - GRACE_MS
    if row.next_at >= oldest:
        return DueStart(row.next_at, None, following(definition, row.next_at))
    count, last = due_until(cron, zone, row.next_at, oldest - 1, MOST_COUNTED)
    following_at = following(definition, last)
    if following_at is not None and following_at <= now:
        # The newest are on time.
        return DueStart(following_at, Missed(count, row.next_at, last), following(definition, following_at))
    if definition["catch_up"] == "none":
        return DueStart(None, Missed(count, row.next_at, last), following_at)
    return DueStart(last, _before(row.next_at, last, count, cron, zone), following_at)


def _before(first: int, last: int, count: int, cron: str, zone: str) -> Missed | None:
    if first == last:
        return None
    _, before = due_until(cron, zone, first, last - 1, MOST_COUNTED)
    return Missed(max(1, count - 1), first, before)


def idempotency_key(row: ScheduleRow, due_at: int) -> str:
    """Returns the idempotency key of a due start; no caller has such a key, as it holds a tab."""
    return f"schedule\t{row.workflow_id}\t{label_of(row)}\t{due_at}"
