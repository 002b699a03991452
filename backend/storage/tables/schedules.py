"""Tables of schedules and planned starts, and of the runs that they started."""

from typing import NamedTuple

from sqlalchemy import BigInteger, Column, ForeignKey, Integer, Table, Text, UniqueConstraint

from backend.storage.tables.metadata import METADATA, partial_index
from backend.storage.tables.workflows import workflows

# The schedules of each workflow's active version, and single starts that people planned.
schedules = Table(
    "schedules",
    METADATA,
    Column("schedule_id", Text, primary_key=True),
    Column("workflow_id", Text, ForeignKey(workflows.c.workflow_id, ondelete="CASCADE"), nullable=False),
    # Unique within the workflow; null for a planned start.
    Column("name", Text),
    # JSON: the entry of the manifest, or the body of a planned start; `{}` once that was decided.
    Column("definition", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    # Who planned the start; null for a schedule.
    Column("created_by", Text),
    Column("paused", Integer, nullable=False),
    # The first due time that was not decided; null while it is paused, and once nothing comes any more.
    Column("next_at", BigInteger),
    # A due time that waits for the end of the run in flight.
    Column("waiting_at", BigInteger),
    # The last decision: its due time (null where a person triggered it), when it was made, and
    # `started`, `skipped`, `queued` or `failed`, with the run or the reason.
    Column("last_due_at", BigInteger),
    Column("last_at", BigInteger),
    Column("last_outcome", Text),
    Column("last_run_id", Text),
    Column("last_reason", Text),
    UniqueConstraint("workflow_id", "name"),
    partial_index("ix_schedules_due", "next_at", where="next_at IS NOT NULL"),
    partial_index("ix_schedules_waiting", "waiting_at", where="waiting_at IS NOT NULL"),
)


class ScheduleRow(NamedTuple):
    """A schedule or planned start."""

    schedule_id: str
    workflow_id: str
    name: str | None
    definition: str
    created_at: int
    created_by: str | None = None
    paused: int = 0
    next_at: int | None = None
    waiting_at: int | None = None
    last_due_at: int | None = None
    last_at: int | None = None
    last_outcome: str | None = None
    last_run_id: str | None = None
    last_reason: str | None = None


# The runs that schedules started. A due time has at most one for ever: rows stay when a run or a schedule is gone.
schedule_starts = Table(
    "schedule_starts",
    METADATA,
    Column("run_id", Text, primary_key=True),
    Column("workflow_id", Text, nullable=False),
    # Name of the schedule, or id of the planned start.
    Column("schedule", Text, nullable=False),
    # Null where a person triggered it.
    Column("due_at", BigInteger),
    Column("started_at", BigInteger, nullable=False),
    UniqueConstraint("workflow_id", "schedule", "due_at"),
)
