"""State of schedules at the end: schedules, planned starts, what they started, and their records in the audit trail."""

import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple


class ScheduleRow(NamedTuple):
    """A row of `schedules`; times are milliseconds."""

    name: str | None
    created_at: int
    next_at: int | None = None
    waiting_at: int | None = None
    last_outcome: str | None = None
    last_run_id: str | None = None


class ScheduleStart(NamedTuple):
    """A row of `schedule_starts`; `schedule` is the name of a schedule, or the id of a planned start."""

    run_id: str
    schedule: str
    due_at: int | None


class SkippedTimes(NamedTuple):
    """An audit record of skipped due times: the first, the last, and how many there are."""

    first: int
    last: int
    number: int


@dataclass
class Schedules:
    """Rows by id, audit records by the name of a schedule or the id of a planned start."""

    rows: dict[str, ScheduleRow] = field(default_factory=dict)
    starts: list[ScheduleStart] = field(default_factory=list)
    skipped: dict[str, list[SkippedTimes]] = field(default_factory=dict)
    failed: dict[str, list[int]] = field(default_factory=dict)
    paused_at: dict[str, int] = field(default_factory=dict)


_ROWS: Final = "SELECT schedule_id, name, created_at, next_at, waiting_at, last_outcome, last_run_id FROM schedules"
_STARTS: Final = "SELECT run_id, schedule, due_at FROM schedule_starts"
_RECORDS: Final = "SELECT action, at, details FROM audit_records WHERE action LIKE 'schedule.%'"


def read_schedules(database: Any) -> Schedules:
    """Reads them by SQL."""
    schedules = Schedules(
        rows={row[0]: ScheduleRow(*row[1:]) for row in database.execute(_ROWS)},
        starts=[ScheduleStart(*row) for row in database.execute(_STARTS)],
    )
    for action, at, text in database.execute(_RECORDS):
        details = json.loads(text)
        match action:
            case "schedule.skipped":
                skipped = SkippedTimes(
                    to_milliseconds(details["first_due_at"]), to_milliseconds(details["due_at"]), details["count"]
                )
                schedules.skipped.setdefault(details["schedule"], []).append(skipped)
            case "schedule.failed":
                schedules.failed.setdefault(details["schedule"], []).append(to_milliseconds(details["due_at"]))
            case "schedule.paused":
                schedules.paused_at[details["schedule"]] = at
    return schedules


def to_milliseconds(at: str) -> int:
    """Milliseconds of a time in ISO 8601."""
    return round(datetime.fromisoformat(at).timestamp() * 1000)
