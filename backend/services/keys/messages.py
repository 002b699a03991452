"""Converts rows of keys to messages."""

import json

from google.protobuf.timestamp_pb2 import Timestamp

from backend.services.keys.rules import scope_numbers, state_of
from backend.services.keys.sql import CallerKeyRow, KeyRow, KeySearchRow, MirroredKeyRow
from contract.fields import PRIORITIES
from contract.times import to_timestamp
from workflow_api.v1 import edge_pb2, keys_pb2

_MODES = {
    "all_active": keys_pb2.WorkflowAccess.MODE_ALL_ACTIVE,
    "explicit": keys_pb2.WorkflowAccess.MODE_EXPLICIT,
}
MODE_NAMES = {number: name for name, number in _MODES.items()}


def api_key(row: CallerKeyRow | KeyRow) -> keys_pb2.ApiKey:
    """Converts a key to the message that its caller gets (contract 9.12)."""
    return keys_pb2.ApiKey(
        key_id=row.key_id,
        name=row.name,
        deployment_id=row.deployment_id,
        scopes=scope_numbers(json.loads(row.scopes)),
        workflow_access=keys_pb2.WorkflowAccess(
            mode=_MODES[row.access_mode], workflow_ids=json.loads(row.access_workflow_ids)
        ),
        expires_at=to_timestamp(row.expires_at),
        rate_limit_rpm=row.rate_limit_rpm,
        daily_run_quota=row.daily_run_quota,
        quota_used_today=row.quota_used_today,
        max_concurrent_runs=row.max_concurrent_runs,
        active_runs=row.active_runs,
    )


def key_record(row: KeyRow, now: int) -> keys_pb2.KeyRecord:
    """Converts a key to the message that administrators get."""
    state = state_of(
        revoked_at=row.revoked_at,
        expires_at=row.expires_at,
        previous_secret_expires_at=row.previous_secret_expires_at,
        now=now,
    )
    return keys_pb2.KeyRecord(
        key=api_key(row),
        description=row.description,
        source_allow_list=json.loads(row.source_allow_list),
        allowed_hours=_hours(row),
        state=state,
        created_at=to_timestamp(row.created_at),
        rotating_until=_time(row.previous_secret_expires_at) if state == "rotating" else None,
        revoked_at=_time(row.revoked_at),
        daily_tokens=row.daily_tokens,
        daily_cost_microusd=row.daily_cost_microusd,
        tokens_today=row.tokens_today,
        cost_today_microusd=row.cost_today_microusd,
        priority=PRIORITIES[row.priority],
    )


def found_key(row: KeySearchRow, now: int) -> keys_pb2.FoundKey:
    """Converts a key to a result of a search."""
    state = state_of(
        revoked_at=row.revoked_at,
        expires_at=row.expires_at,
        previous_secret_expires_at=row.previous_secret_expires_at,
        now=now,
    )
    return keys_pb2.FoundKey(key_id=row.key_id, name=row.name, state=state, created_at=to_timestamp(row.created_at))


def mirrored_key(row: MirroredKeyRow) -> edge_pb2.MirroredKey:
    """Converts a key to the message that edges mirror: hashes and rules."""
    return edge_pb2.MirroredKey(
        key_id=row.key_id,
        deployment_id=row.deployment_id,
        secret_sha256=bytes.fromhex(row.secret_sha256),
        previous_secret_sha256=bytes.fromhex(row.previous_secret_sha256 or ""),
        previous_secret_expires_at=_time(row.previous_secret_expires_at),
        external_id_sha256=bytes.fromhex(row.external_id_sha256),
        scopes=scope_numbers(json.loads(row.scopes)),
        source_allow_list=json.loads(row.source_allow_list),
        allowed_hours=_hours(row),
        expires_at=to_timestamp(row.expires_at),
        rate_limit_rpm=row.rate_limit_rpm,
        revoked=row.revoked_at is not None,
    )


def _hours(row: KeyRow | MirroredKeyRow) -> keys_pb2.AllowedHours | None:
    if row.start_hour is None or row.end_hour is None:
        return None
    return keys_pb2.AllowedHours(start_hour=row.start_hour, end_hour=row.end_hour)


def _time(milliseconds: int | None) -> Timestamp | None:
    return None if milliseconds is None else to_timestamp(milliseconds)
