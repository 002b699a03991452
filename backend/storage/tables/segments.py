"""Tables of the parts of a run: segments, steps and their items, events, approvals, logs and transcripts."""

from typing import Final, NamedTuple

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, Table, Text, text

from backend.storage.tables.metadata import METADATA, partial_index
from backend.storage.tables.runs import runs

# Segments in state `queued` that were not dispatched are the outbox of the launcher.
segments = Table(
    "segments",
    METADATA,
    Column("segment_id", Text, primary_key=True),
    Column("run_id", Text, ForeignKey(runs.c.run_id, ondelete="CASCADE"), nullable=False),
    Column("ordinal", Integer, nullable=False),
    # `queued`, `running` or `ended`.
    Column("state", Text, nullable=False),
    # The process that runs it: an id made at its start and never used again.
    Column("owner", Text),
    Column("created_at", BigInteger, nullable=False),
    # Time of the dispatch to an engine; null while no engine has it.
    Column("handed_over_at", BigInteger),
    Column("started_at", BigInteger),
    Column("ended_at", BigInteger),
    Column("last_seq", Integer, nullable=False),
    # Number of dispatches to an engine, which may identify a dispatch by this number.
    Column("hand_overs", Integer, nullable=False, server_default="0"),
    Index(None, "run_id", "ordinal", unique=True),
    partial_index(
        "ix_segments_open",
        "state",
        "created_at",
        where="state <> 'ended'",
    ),
)


class SegmentRow(NamedTuple):
    """A segment of a run."""

    segment_id: str
    run_id: str
    ordinal: int
    state: str
    owner: str | None
    created_at: int
    handed_over_at: int | None
    started_at: int | None
    ended_at: int | None
    last_seq: int


# The state of each step of a run.
steps = Table(
    "steps",
    METADATA,
    Column("run_id", Text, ForeignKey(runs.c.run_id, ondelete="CASCADE"), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("step", Text, nullable=False),
    Column("name", Text, nullable=False),
    # `agent` or `approval`.
    Column("kind", Text, nullable=False),
    Column("status", Text, nullable=False),
    # JSON array of handles.
    Column("needs", Text, nullable=False),
    Column("agent_id", Text),
    Column("segment_id", Text),
    Column("attempt", Integer, nullable=False),
    Column("optional", Integer, nullable=False),
    Column("started_at", BigInteger),
    Column("finished_at", BigInteger),
    Column("error_code", Text),
    Column("error_message", Text),
    # The step's return value as JSON; later segments read it.
    Column("value", Text),
    # Files that the step left, for callers and later steps; null until it completed, and in rows of earlier releases.
    Column("files_count", Integer),
    # The resumed run whose completed step this one reuses, or, while pending, is to reuse.
    Column("reused_from", Text),
    # `on_failure` or `always` of a step that runs after the others; null for ordinary steps.
    Column("phase", Text),
    # Of a fan-out, once its items are known.
    Column("items_total", Integer),
    Column("items_completed", Integer),
    Column("items_failed", Integer),
    # The run whose completed items a fan-out reuses where they are unchanged.
    Column("items_from", Text),
    # Attempts that ended with calls of tools for a person to approve; null for none.
    Column("pauses", Integer),
    # The conversation that the next attempt goes on with, as JSON; null unless such calls wait, or are to be made.
    Column("paused", Text),
)


class StepRow(NamedTuple):
    """A step of a run."""

    run_id: str
    position: int
    step: str
    name: str
    kind: str
    status: str
    needs: str
    agent_id: str | None
    segment_id: str | None
    attempt: int
    optional: int
    started_at: int | None
    finished_at: int | None
    error_code: str | None
    error_message: str | None
    value: str | None
    files_count: int | None
    reused_from: str | None
    phase: str | None
    items_total: int | None
    items_completed: int | None
    items_failed: int | None
    items_from: str | None
    pauses: int | None


# The items of a fan-out, until its step completes: the step then has their values.
step_items = Table(
    "step_items",
    METADATA,
    Column("run_id", Text, ForeignKey(runs.c.run_id, ondelete="CASCADE"), primary_key=True),
    Column("step", Text, primary_key=True),
    Column("item_index", Integer, primary_key=True),
    # `pending`, `completed` or `failed`.
    Column("status", Text, nullable=False),
    # Number of attempts that ended; 0 for a reused item.
    Column("attempt", Integer, nullable=False),
    # JSON.
    Column("item", Text, nullable=False),
    # JSON: its return value, or `{"error": …}` of one that failed.
    Column("value", Text),
    Column("value_bytes", Integer),
    # How many files it left.
    Column("files_count", Integer),
)


class StepItemRow(NamedTuple):
    """An item of a fan-out."""

    run_id: str
    step: str
    item_index: int
    status: str
    attempt: int
    item: str
    value: str | None
    value_bytes: int | None
    files_count: int | None


events = Table(
    "events",
    METADATA,
    Column("segment_id", Text, ForeignKey(segments.c.segment_id, ondelete="CASCADE"), primary_key=True),
    Column("seq", Integer, primary_key=True),
    Column("type", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("step", Text),
    # JSON object.
    Column("data", Text, nullable=False),
    sqlite_with_rowid=False,
)


class EventRow(NamedTuple):
    """An event of a segment."""

    segment_id: str
    seq: int
    type: str
    at: int
    step: str | None
    data: str


LAST_PLACE: Final = 2**62
"""Place of approvals without a deadline in the index by deadlines, in milliseconds."""

approvals = Table(
    "approvals",
    METADATA,
    Column("approval_id", Text, primary_key=True),
    Column("run_id", Text, ForeignKey(runs.c.run_id, ondelete="CASCADE"), nullable=False),
    Column("segment_id", Text, nullable=False),
    Column("step", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("instructions", Text),
    # `pending`, `approved`, `rejected`, `expired` or `withdrawn`.
    Column("state", Text, nullable=False),
    Column("requested_at", BigInteger, nullable=False),
    Column("decided_at", BigInteger),
    Column("decided_by", Text),
    Column("comment", Text),
    # The segment that continues after the decision; null while the segment that asked still runs.
    Column("continued_in", Text),
    Column("deadline_at", BigInteger),
    # `reject` or `fail`; null without a deadline.
    Column("on_deadline", Text),
    # When a reminder is due; null once it was sent.
    Column("remind_at", BigInteger),
    Column("reminded_at", BigInteger),
    # JSON object with `roles` and `people`; null where everybody may decide whose role allows it.
    Column("approvers", Text),
    # JSON Schema of the values that a person fills in, and these values as JSON.
    Column("form_schema", Text),
    Column("form", Text),
    # What the workflow says about it to people, swept.
    Column("summary", Text),
    # The call of a model's tool that it is about, as JSON; its arguments are swept.
    Column("tool_call", Text),
    # The person who looks after it.
    Column("assigned_to", Text),
    Index(None, "run_id", "requested_at"),
    partial_index(
        "ix_approvals_pending",
        "requested_at",
        where="state = 'pending'",
    ),
    partial_index("ix_approvals_decided", "decided_at", "approval_id", where="decided_by IS NOT NULL"),
    partial_index("ix_approvals_deadline", "deadline_at", where="state = 'pending' AND deadline_at IS NOT NULL"),
    partial_index(
        "ix_approvals_by_deadline",
        text(f"coalesce(deadline_at, {LAST_PLACE})"),
        "approval_id",
        where="state = 'pending'",
    ),
    partial_index("ix_approvals_remind", "remind_at", where="state = 'pending' AND remind_at IS NOT NULL"),
)


# Approvals that a person does not want to see until a time.
approval_snoozes = Table(
    "approval_snoozes",
    METADATA,
    Column("approval_id", Text, ForeignKey(approvals.c.approval_id, ondelete="CASCADE"), primary_key=True),
    Column("person", Text, primary_key=True),
    Column("until", BigInteger, nullable=False),
)


class ApprovalRow(NamedTuple):
    """An approval that a step asked for."""

    approval_id: str
    run_id: str
    segment_id: str
    step: str
    title: str
    instructions: str | None
    state: str
    requested_at: int
    decided_at: int | None
    decided_by: str | None
    comment: str | None
    continued_in: str | None
    on_deadline: str | None
    form_schema: str | None
    form: str | None
    tool_call: str | None


step_logs = Table(
    "step_logs",
    METADATA,
    Column("run_id", Text, ForeignKey(runs.c.run_id, ondelete="CASCADE"), primary_key=True),
    Column("step", Text, primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("began_at", BigInteger, nullable=False),
    # Null while the attempt runs, and if its process died.
    Column("ended_at", BigInteger),
    # Bytes of the stored object; null while the log is only in parts.
    Column("size_bytes", BigInteger),
    # Why the log is not shown.
    Column("problem", Text),
)


# Parts of a log, swept by the run's PII policy. Of a long log only the beginning and the end are kept, so `seq` may
# have a gap.
step_log_parts = Table(
    "step_log_parts",
    METADATA,
    Column("run_id", Text, ForeignKey(runs.c.run_id, ondelete="CASCADE"), primary_key=True),
    Column("step", Text, primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("seq", Integer, primary_key=True),
    Column("text", Text, nullable=False),
    # When the stored object replaced the part; followers may still read the part.
    Column("superseded_at", BigInteger),
    partial_index(
        "ix_step_log_parts_superseded",
        "superseded_at",
        where="superseded_at IS NOT NULL",
    ),
)


# Transcripts: the messages between an attempt and its model, for agents that keep them. Columns are as in `step_logs`.
step_transcripts = Table(
    "step_transcripts",
    METADATA,
    Column("run_id", Text, ForeignKey(runs.c.run_id, ondelete="CASCADE"), primary_key=True),
    Column("step", Text, primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("began_at", BigInteger, nullable=False),
    Column("ended_at", BigInteger),
    Column("size_bytes", BigInteger),
    Column("problem", Text),
)


step_transcript_parts = Table(
    "step_transcript_parts",
    METADATA,
    Column("run_id", Text, ForeignKey(runs.c.run_id, ondelete="CASCADE"), primary_key=True),
    Column("step", Text, primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("seq", Integer, primary_key=True),
    Column("text", Text, nullable=False),
    Column("superseded_at", BigInteger),
    partial_index(
        "ix_step_transcript_parts_superseded",
        "superseded_at",
        where="superseded_at IS NOT NULL",
    ),
)


class StepLogPartRow(NamedTuple):
    """A part of a log or transcript."""

    seq: int
    text: str
