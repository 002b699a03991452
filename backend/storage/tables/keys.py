"""Tables of API keys and of their usage."""

from typing import NamedTuple

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, LargeBinary, Table, Text

from backend.storage.tables.metadata import METADATA

api_keys = Table(
    "api_keys",
    METADATA,
    Column("key_id", Text, primary_key=True),
    Column("deployment_id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("secret_sha256", Text, nullable=False),
    Column("previous_secret_sha256", Text),
    Column("previous_secret_expires_at", BigInteger),
    Column("external_id_sha256", Text, nullable=False),
    # JSON array of scope spellings.
    Column("scopes", Text, nullable=False),
    # `all_active` or `explicit`.
    Column("access_mode", Text, nullable=False),
    # JSON array of workflow ids; empty for `all_active`.
    Column("access_workflow_ids", Text, nullable=False),
    # JSON array of CIDR ranges.
    Column("source_allow_list", Text, nullable=False),
    Column("start_hour", Integer),
    Column("end_hour", Integer),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Column("rate_limit_rpm", Integer, nullable=False),
    Column("daily_run_quota", Integer, nullable=False),
    Column("max_concurrent_runs", Integer, nullable=False),
    Column("revoked_at", BigInteger),
    # Most tokens and cost of a UTC day; null for no limit.
    Column("daily_tokens", BigInteger),
    Column("daily_cost_microusd", BigInteger),
    # `low`, `normal` or `high`.
    Column("priority", Text, nullable=False, server_default="normal"),
)


daily_usage = Table(
    "daily_usage",
    METADATA,
    Column("key_id", Text, ForeignKey(api_keys.c.key_id, ondelete="CASCADE"), primary_key=True),
    Column("day", Integer, primary_key=True),
    Column("runs_started", Integer, nullable=False),
)

# Written by releases before `usage_batches`; its rows stay readable for their 90 days.
usage_records = Table(
    "usage_records",
    METADATA,
    Column("batch_id", Text, primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("key_id", Text, nullable=False),
    Column("method", Text, nullable=False),
    Column("route", Text, nullable=False),
    Column("status", Integer, nullable=False),
    Column("address", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("request_id", Text, nullable=False),
    Column("duration_us", BigInteger),
    Index(None, "key_id", "at"),
    Index(None, "at"),
)


class UsageRow(NamedTuple):
    """One request of a key."""

    batch_id: str
    position: int
    at: int
    key_id: str
    method: str
    route: str
    status: int
    address: str
    reason: str
    request_id: str
    duration_us: int | None
    calls: int
    """Number of calls that the record stands for."""


usage_batches = Table(
    "usage_batches",
    METADATA,
    Column("batch_id", Text, primary_key=True),
    # Position of the first call in its batch.
    Column("position", Integer, primary_key=True),
    Column("key_id", Text, nullable=False),
    # Times of the oldest and of the newest call, in milliseconds since the epoch.
    Column("first_at", BigInteger, nullable=False),
    Column("last_at", BigInteger, nullable=False),
    # A serialised `workflow_api.v1.CallGroup`.
    Column("calls", LargeBinary, nullable=False),
    Index(None, "key_id", "last_at"),
    Index(None, "last_at"),
)


class UsageBatchRow(NamedTuple):
    """The calls of one key in one batch within ten seconds."""

    batch_id: str
    position: int
    key_id: str
    first_at: int
    last_at: int
    calls: bytes


# Usage records counted by the hour, written with them; the console shows these.
usage_hours = Table(
    "usage_hours",
    METADATA,
    # When the hour began, in milliseconds since the epoch.
    Column("hour", BigInteger, primary_key=True),
    Column("key_id", Text, primary_key=True),
    Column("method", Text, primary_key=True),
    Column("route", Text, primary_key=True),
    Column("status", Integer, primary_key=True),
    Column("calls", BigInteger, nullable=False),
    Index(None, "key_id", "hour"),
)


class KeyHourRow(NamedTuple):
    """The requests of one key in one hour."""

    hour: int
    key_id: str
    calls: int
    refused: int


class UsageHourRow(NamedTuple):
    """The requests of one kind in one hour."""

    hour: int
    key_id: str
    method: str
    route: str
    status: int
    calls: int
