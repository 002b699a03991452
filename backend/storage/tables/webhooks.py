"""Tables of webhooks and of the messages to them."""

from typing import NamedTuple

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, Table, Text, text

from backend.storage.tables.keys import api_keys
from backend.storage.tables.metadata import METADATA, partial_index
from backend.storage.tables.runs import runs

webhooks = Table(
    "webhooks",
    METADATA,
    Column("webhook_id", Text, primary_key=True),
    Column("key_id", Text, ForeignKey(api_keys.c.key_id, ondelete="CASCADE"), nullable=False),
    Column("url", Text, nullable=False),
    Column("description", Text, nullable=False),
    # Flags, one for each event that the webhook may report.
    Column("run_ended", Integer, nullable=False),
    Column("run_waiting_for_approval", Integer, nullable=False),
    Column("run_erased", Integer, nullable=False),
    Column("approval_reminded", Integer, nullable=False, server_default="0"),
    Column("approval_expired", Integer, nullable=False, server_default="0"),
    Column("schedule_skipped", Integer, nullable=False, server_default=text("0")),
    Column("schedule_failed", Integer, nullable=False, server_default=text("0")),
    # Readable, as messages are signed with it: `whsec_` and 32 bytes in base64.
    Column("secret", Text, nullable=False),
    Column("previous_secret", Text),
    Column("previous_secret_expires_at", BigInteger),
    Column("created_at", BigInteger, nullable=False),
    # Null while it is active.
    Column("paused_at", BigInteger),
    # `requested`, `unreachable` or `gone`.
    Column("paused_reason", Text),
    # Since when every attempt has failed.
    Column("failing_since", BigInteger),
    Index(None, "key_id"),
)


class WebhookRow(NamedTuple):
    """A webhook."""

    webhook_id: str
    key_id: str
    url: str
    description: str
    run_ended: int
    run_waiting_for_approval: int
    run_erased: int
    approval_reminded: int
    approval_expired: int
    schedule_skipped: int
    schedule_failed: int
    secret: str
    previous_secret: str | None
    previous_secret_expires_at: int | None
    created_at: int
    paused_at: int | None
    paused_reason: str | None
    failing_since: int | None


# Messages hold nothing of a run but its id; the rest is read from the run when they are sent. Those of schedules are of
# no run, and hold what they say.
webhook_deliveries = Table(
    "webhook_deliveries",
    METADATA,
    Column("webhook_id", Text, ForeignKey(webhooks.c.webhook_id, ondelete="CASCADE"), primary_key=True),
    # One id for all webhooks that get the message.
    Column("message_id", Text, primary_key=True),
    # Null for a message of a schedule.
    Column("run_id", Text, ForeignKey(runs.c.run_id, ondelete="CASCADE")),
    # The place among the run's messages to this webhook, from 1.
    Column("ordinal", Integer, nullable=False),
    # A `WebhookEvent`.
    Column("event", Text, nullable=False),
    # The run's status at that time; empty for a message of a schedule.
    Column("run_status", Text, nullable=False),
    Column("occurred_at", BigInteger, nullable=False),
    # `pending`, `delivered` or `failed`.
    Column("state", Text, nullable=False),
    # When an attempt may begin; null once finished, and while an earlier message of the run is pending. A claim moves
    # it past the end of the attempt, so that a claim whose process died lapses.
    Column("due_at", BigInteger),
    # The claim of the last attempt; an attempt with another claim may record nothing.
    Column("claim", Text),
    Column("attempts", Integer, nullable=False),
    Column("first_attempt_at", BigInteger),
    Column("last_attempt_at", BigInteger),
    # Outcome of the last attempt: the status of the answer, and a word for the failure.
    Column("last_status", Integer),
    Column("last_error", Text),
    Column("finished_at", BigInteger),
    # `data` of a message of a schedule, as JSON; null where it is read from the run.
    Column("data", Text),
    Index("ix_webhook_deliveries_order", "webhook_id", "run_id", "ordinal", unique=True),
    Index("ix_webhook_deliveries_newest", "webhook_id", "occurred_at", "message_id"),
    Index(None, "occurred_at"),
    # Serves the foreign key when a run is deleted.
    Index(None, "run_id"),
    partial_index("ix_webhook_deliveries_due", "webhook_id", "due_at", where="due_at IS NOT NULL"),
    partial_index("ix_webhook_deliveries_pending", "webhook_id", "run_id", "ordinal", where="state = 'pending'"),
)


class WebhookDeliveryRow(NamedTuple):
    """A message to one webhook, with the outcome of its delivery."""

    webhook_id: str
    message_id: str
    run_id: str | None
    event: str
    occurred_at: int
    state: str
    due_at: int | None
    attempts: int
    last_attempt_at: int | None
    last_status: int | None
    last_error: str | None
    finished_at: int | None
