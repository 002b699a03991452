"""Tables of runs and of the idempotency keys that started them."""

from typing import Final, NamedTuple

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Float,
    ForeignKey,
    Index,
    Integer,
    Table,
    Text,
    UniqueConstraint,
    func,
    literal_column,
    or_,
    select,
)

from backend.common.states import RUN_IN_FLIGHT, RUN_TERMINAL
from backend.storage.tables.metadata import METADATA, partial_index

# A partial index serves a query only if both have the same condition as text. With IN, SQLite builds a table of the
# list at each change of a row.
_IN_FLIGHT: Final = " OR ".join(f"status = '{status}'" for status in RUN_IN_FLIGHT)
_FINISHED: Final = " OR ".join(f"status = '{status}'" for status in RUN_TERMINAL)
_REFERENCED: Final = f"client_reference IS NOT NULL AND ({_FINISHED})"
_KEPT: Final = "finished_at IS NOT NULL AND data_purged_at IS NULL"


runs = Table(
    "runs",
    METADATA,
    Column("run_id", Text, primary_key=True),
    # The key that started it; empty for a run that no key started.
    Column("key_id", Text, nullable=False),
    Column("workflow_id", Text, nullable=False),
    Column("workflow_name", Text, nullable=False),
    Column("version", Integer, nullable=False),
    # `queued`, `running`, `waiting_for_approval`, `completed`, `failed` or `cancelled`.
    Column("status", Text, nullable=False),
    Column("triggered_by", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("started_at", BigInteger),
    Column("finished_at", BigInteger),
    Column("cancel_requested_at", BigInteger),
    Column("cancel_reason", Text),
    Column("client_reference", Text),
    # JSON object.
    Column("labels", Text, nullable=False),
    # Counters kept with the changes they count.
    Column("steps_total", Integer, nullable=False),
    Column("steps_completed", Integer, nullable=False),
    Column("steps_failed", Integer, nullable=False),
    Column("steps_skipped", Integer, nullable=False),
    Column("approvals_pending", Integer, nullable=False),
    Column("outputs_count", Integer, nullable=False),
    # JSON array of strings.
    Column("warnings", Text, nullable=False),
    # JSON object of effective values; null once erased.
    Column("parameters", Text),
    Column("input_text", Text),
    # JSON array; null until copied in, and once erased.
    Column("inputs_manifest", Text),
    Column("error_code", Text),
    Column("error_message", Text),
    Column("max_run_hours", Float),
    Column("summary_markdown", Text),
    # JSON text up to 262,144 bytes; a larger result is only an output.
    Column("result", Text),
    Column("result_error_code", Text),
    Column("result_error_message", Text),
    Column("result_schema_version", Text),
    Column("result_output_id", Text),
    Column("result_size_bytes", BigInteger),
    Column("result_sha256", Text),
    Column("data_purged_at", BigInteger),
    # JSON object.
    Column("pii_policy", Text, nullable=False),
    # The redaction manifest as JSON; null when the policy is off.
    Column("pii_redaction", Text),
    # `none` (policy off), `pending` or `done`.
    Column("redaction_state", Text, nullable=False),
    # The run that this one resumed, and the newest run that resumed this one.
    Column("resumed_from", Text),
    Column("resumed_by", Text),
    # Of a child: the run and the step that started it, and the index of the item that it is for, if any.
    Column("parent_run_id", Text),
    Column("parent_step", Text),
    Column("parent_item", Integer),
    # Number of runs above it.
    Column("depth", Integer, nullable=False, server_default="0"),
    # Sums of `model_usage`, kept with its rows.
    Column("model_calls", BigInteger, nullable=False, server_default="0"),
    Column("input_tokens", BigInteger, nullable=False, server_default="0"),
    Column("output_tokens", BigInteger, nullable=False, server_default="0"),
    Index("ix_runs_newest_of_key", "key_id", "created_at", "run_id"),
    Index("ix_runs_newest", "created_at", "run_id"),
    partial_index("ix_runs_unswept", "finished_at", where="redaction_state = 'pending'"),
    partial_index("ix_runs_expiring", "finished_at", where=_KEPT),
    # Has all columns of a day's figures, so that counting reads no row of the table.
    partial_index("ix_runs_ended", "finished_at", "status", "started_at", where="finished_at IS NOT NULL"),
    # The newest failures, of which there may be few among very many runs of a day.
    partial_index("ix_runs_failed", "finished_at", where="status = 'failed'"),
    # Has all columns of a workflow's figures of its newest runs.
    partial_index(
        "ix_runs_ended_of_workflow",
        "workflow_id",
        "finished_at",
        "run_id",
        "status",
        "started_at",
        where="finished_at IS NOT NULL",
    ),
    # Each key has at most as many rows here as it may have runs in flight.
    partial_index("ix_runs_in_flight", "key_id", "status", "created_at", "run_id", where=_IN_FLIGHT),
    partial_index("ix_runs_children", "parent_run_id", "created_at", "run_id", where="parent_run_id IS NOT NULL"),
    # The runs in flight of a key that take none of its slots.
    partial_index("ix_runs_children_in_flight", "key_id", where=f"parent_run_id IS NOT NULL AND ({_IN_FLIGHT})"),
    # The filter of the list, then its order; entries are written once, when a run finishes.
    partial_index("ix_runs_finished", "key_id", "status", "created_at", "run_id", where=_FINISHED),
    partial_index(
        "ix_runs_finished_of_workflow", "key_id", "workflow_id", "status", "created_at", "run_id", where=_FINISHED
    ),
    partial_index(
        "ix_runs_finished_of_reference",
        "client_reference",
        "key_id",
        "workflow_id",
        "status",
        "created_at",
        "run_id",
        where=_REFERENCED,
    ),
)


# Runs that lost their worker and whose workflow has `on_interruption: resume`. Rows stay, as ids alone.
interruptions = Table(
    "interruptions",
    METADATA,
    Column("run_id", Text, ForeignKey(runs.c.run_id, ondelete="CASCADE"), primary_key=True),
    # Position in the chain of runs that followed one another automatically, from 1.
    Column("ordinal", Integer, nullable=False),
    Column("interrupted_at", BigInteger, nullable=False),
    # When the run is to be resumed; null once that is decided.
    Column("due_at", BigInteger),
    # The run that the service started; null where it started none.
    Column("followed_by", Text),
    UniqueConstraint("followed_by"),
    partial_index("ix_interruptions_due", "due_at", where="due_at IS NOT NULL"),
    sqlite_with_rowid=False,
)

# The labels of runs once more, so that people find runs by them.
run_labels = Table(
    "run_labels",
    METADATA,
    Column("run_id", Text, ForeignKey(runs.c.run_id, ondelete="CASCADE"), primary_key=True),
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
    # Of the run: the order of its list.
    Column("created_at", BigInteger, nullable=False),
    Index("ix_run_labels_newest", "value", "created_at", "run_id"),
    sqlite_with_rowid=False,
)

# The span that started a run, if recorded: later spans of the run are part of its trace.
run_traces = Table(
    "run_traces",
    METADATA,
    Column("run_id", Text, ForeignKey(runs.c.run_id, ondelete="CASCADE"), primary_key=True),
    # W3C Trace Context.
    Column("traceparent", Text, nullable=False),
    Column("tracestate", Text),
    sqlite_with_rowid=False,
)

# Figures of the UTC days that are over, counted when somebody first asks.
run_days = Table(
    "run_days",
    METADATA,
    Column("day", BigInteger, primary_key=True, autoincrement=False),
    Column("ended", Integer, nullable=False),
    Column("failed", Integer, nullable=False),
    Column("cancelled", Integer, nullable=False),
    # Of the runs that began; null where none did.
    Column("median_ms", BigInteger),
    Column("p95_ms", BigInteger),
)


class RunRow(NamedTuple):
    """A run in full."""

    run_id: str
    key_id: str
    workflow_id: str
    workflow_name: str
    version: int
    status: str
    triggered_by: str
    created_at: int
    started_at: int | None
    finished_at: int | None
    cancel_requested_at: int | None
    cancel_reason: str | None
    client_reference: str | None
    labels: str
    steps_total: int
    steps_completed: int
    steps_failed: int
    steps_skipped: int
    approvals_pending: int
    outputs_count: int
    warnings: str
    parameters: str | None
    input_text: str | None
    inputs_manifest: str | None
    error_code: str | None
    error_message: str | None
    max_run_hours: float | None
    summary_markdown: str | None
    result: str | None
    result_error_code: str | None
    result_error_message: str | None
    result_schema_version: str | None
    result_output_id: str | None
    result_size_bytes: int | None
    result_sha256: str | None
    data_purged_at: int | None
    pii_policy: str
    pii_redaction: str | None
    redaction_state: str
    resumed_from: str | None
    resumed_by: str | None
    parent_run_id: str | None
    parent_step: str | None
    parent_item: int | None
    depth: int
    model_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


NO_CHILD: Final[ColumnElement[bool]] = runs.c.parent_run_id.is_(None)
"""Condition on `runs` that no other run started it: a child is in no list, and takes no slot."""


def status_in(*statuses: str) -> ColumnElement[bool]:
    """Returns a condition on `runs` with the statuses in its text, so that a partial index can serve it."""
    return or_(*(runs.c.status == literal_column(f"'{status}'") for status in statuses))


def runs_in_slots(key_id: ColumnElement[str]) -> ColumnElement[int]:
    """Returns the number of runs of a key that take its slots: those in flight without children, from indexes alone."""
    in_flight = select(func.count()).select_from(runs).where(runs.c.key_id == key_id, status_in(*RUN_IN_FLIGHT))
    children = in_flight.where(runs.c.parent_run_id.is_not(None))
    return in_flight.scalar_subquery() - children.scalar_subquery()


idempotency_records = Table(
    "idempotency_records",
    METADATA,
    Column("key_id", Text, primary_key=True),
    Column("idempotency_key", Text, primary_key=True),
    # SHA-256 of workflow id and canonical body.
    Column("fingerprint", Text, nullable=False),
    # Null while every start with it was refused.
    Column("run_id", Text),
    Column("first_used_at", BigInteger, nullable=False),
    Index(None, "first_used_at"),
)
