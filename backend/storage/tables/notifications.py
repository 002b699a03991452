"""Tables of the targets that operators are notified at, and of the messages to them."""

from typing import NamedTuple

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, Table, Text

from backend.storage.tables.metadata import METADATA, partial_index
from backend.storage.tables.runs import runs

# Written from the settings at the start of a backend, so that workers, whose settings name no targets, know them.
notification_targets = Table(
    "notification_targets",
    METADATA,
    Column("name", Text, primary_key=True),
    # JSON array of events.
    Column("events", Text, nullable=False),
    # Names of the workflows whose events it gets, as `listed` writes them; null for all.
    Column("workflows", Text),
    Column("delivered_at", BigInteger),
    Column("failed_at", BigInteger),
    # A word for the last failure; null since a later delivery.
    Column("error", Text),
)


class NotificationTargetRow(NamedTuple):
    """A target, and the times and the outcome of its last attempts."""

    name: str
    events: str
    workflows: str | None
    delivered_at: int | None
    failed_at: int | None
    error: str | None


# Messages of runs hold ids alone; the rest is read when they are sent.
notifications = Table(
    "notifications",
    METADATA,
    Column("target", Text, ForeignKey(notification_targets.c.name, ondelete="CASCADE"), primary_key=True),
    # One id for all targets that get the message.
    Column("message_id", Text, primary_key=True),
    Column("event", Text, nullable=False),
    # The run, schedule, certificate or disk that it is about; a finding is not repeated for a time.
    Column("subject", Text, nullable=False),
    Column("run_id", Text, ForeignKey(runs.c.run_id, ondelete="CASCADE")),
    Column("workflow_id", Text),
    # Values of the message, as JSON; null where they are read from the run.
    Column("details", Text),
    Column("occurred_at", BigInteger, nullable=False),
    # When an attempt may begin; null once finished. A claim moves it past the end of the attempt.
    Column("due_at", BigInteger),
    Column("claim", Text),
    Column("attempts", Integer, nullable=False),
    Index(None, "occurred_at"),
    # Serves the foreign key when a run is deleted.
    Index(None, "run_id"),
    Index("ix_notifications_subject", "target", "event", "subject", "occurred_at"),
    partial_index("ix_notifications_due", "target", "due_at", where="due_at IS NOT NULL"),
)
