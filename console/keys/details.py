"""Details of keys as text, for administrators (contract 9.1, 9.6)."""

from typing import Final, NamedTuple

from contract.fields import SCOPE_SPELLINGS
from contract.times import milliseconds_of
from workflow_api.v1.keys_pb2 import FoundKey, KeyRecord, WorkflowAccess

PICKED_UP_MS: Final = 60_000
"""Longest time until every edge knows a new key."""

_STATES: Final = {
    "active": ("Active", "good"),
    "revoked": ("Revoked", "bad"),
    "expired": ("Expired", "warn"),
}


class State(NamedTuple):
    """The state of a key as text, and the kind of its badge."""

    text: str
    kind: str


class KeyDetails(NamedTuple):
    """Details of a key as text; times in milliseconds since the epoch, None where unset or unknown."""

    key_id: str
    name: str
    description: str
    deployment_id: str
    state: State
    scopes: str
    workflows: str
    source_allow_list: str
    allowed_hours: str
    rate_limit: str
    runs_today: int
    daily_run_quota: int
    runs_in_flight: int
    max_concurrent_runs: int
    created_ms: int
    expires_ms: int
    revoked_ms: int | None
    rotating_until_ms: int | None
    used_ms: int | None


def key_details(record: KeyRecord, now_ms: int, used_ms: int | None = None) -> KeyDetails:
    """Returns the details of a key as text."""
    key = record.key
    return KeyDetails(
        key_id=key.key_id,
        name=key.name,
        description=record.description,
        deployment_id=key.deployment_id,
        state=state_of(record, now_ms),
        scopes=", ".join(SCOPE_SPELLINGS[scope] for scope in key.scopes),
        workflows=_workflows(key.workflow_access),
        source_allow_list=", ".join(record.source_allow_list) or "any address",
        allowed_hours=_hours(record),
        rate_limit=f"{key.rate_limit_rpm:,} requests a minute",
        runs_today=key.quota_used_today,
        daily_run_quota=key.daily_run_quota,
        runs_in_flight=key.active_runs,
        max_concurrent_runs=key.max_concurrent_runs,
        created_ms=milliseconds_of(record.created_at),
        expires_ms=milliseconds_of(key.expires_at),
        revoked_ms=milliseconds_of(record.revoked_at) if record.HasField("revoked_at") else None,
        rotating_until_ms=milliseconds_of(record.rotating_until) if record.state == "rotating" else None,
        used_ms=used_ms,
    )


def matches(record: KeyRecord, text: str) -> bool:
    """Returns whether a key's name, id or description contains `text`, which is in lower case."""
    return any(text in value.lower() for value in (record.key.name, record.key.key_id, record.description))


def state_of(record: KeyRecord | FoundKey, now_ms: int) -> State:
    """Returns the state of a key."""
    if record.state == "rotating":
        return State("Rotating", "busy")
    if record.state == "active" and abs(now_ms - milliseconds_of(record.created_at)) < PICKED_UP_MS:
        return State("Not yet active", "warn")
    text, kind = _STATES.get(record.state, (record.state, ""))
    return State(text, kind)


def _workflows(access: WorkflowAccess) -> str:
    if access.mode == WorkflowAccess.MODE_EXPLICIT:
        return ", ".join(access.workflow_ids)
    return "all active workflows"


def _hours(record: KeyRecord) -> str:
    if not record.HasField("allowed_hours"):
        return "any hour"
    return f"{record.allowed_hours.start_hour:02}:00 to {record.allowed_hours.end_hour:02}:00 UTC"
