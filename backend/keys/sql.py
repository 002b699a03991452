"""SQL of keys and their live counters."""

from typing import Any

from sqlalchemy import bindparam, delete, func, insert, select, update

from backend.run_status import IN_FLIGHT
from backend.storage.database import Tx
from backend.storage.statements import prepare
from backend.storage.tables.keys import api_keys, daily_usage
from backend.storage.tables.runs import runs, status_in
from backend.storage.tables.workflows import workflows

_COLUMNS = [column.name for column in api_keys.columns]

_ACTIVE_RUNS = (
    select(func.count())
    .select_from(runs)
    .where(runs.c.key_id == api_keys.c.key_id, status_in(*IN_FLIGHT))
    .scalar_subquery()
)
_STARTED_TODAY = (
    select(daily_usage.c.runs_started)
    .where(daily_usage.c.key_id == api_keys.c.key_id, daily_usage.c.day == bindparam("day"))
    .scalar_subquery()
)
_OF_CALLER = (
    "key_id",
    "name",
    "deployment_id",
    "scopes",
    "access_mode",
    "access_workflow_ids",
    "expires_at",
    "rate_limit_rpm",
    "daily_run_quota",
    "max_concurrent_runs",
)
_COUNTERS = func.coalesce(_STARTED_TODAY, 0).label("quota_used_today"), _ACTIVE_RUNS.label("active_runs")
_RECORD = select(api_keys, *_COUNTERS)
_SEEN_BY_CALLER = prepare(
    select(*(api_keys.c[name] for name in _OF_CALLER), *_COUNTERS).where(api_keys.c.key_id == bindparam("key_id"))
)
_GET = prepare(_RECORD.where(api_keys.c.key_id == bindparam("key_id")))
_LIST = prepare(_RECORD.order_by(api_keys.c.created_at.desc(), api_keys.c.key_id.desc()))
_MIRROR = prepare(select(api_keys))
_INSERT = prepare(insert(api_keys), _COLUMNS)
_EDIT = prepare(
    update(api_keys)
    .where(api_keys.c.key_id == bindparam("of_key_id"))
    .values({name: bindparam(f"new_{name}") for name in _COLUMNS if name not in {"key_id", "deployment_id"}})
)
_DELETE = prepare(delete(api_keys).where(api_keys.c.key_id == bindparam("key_id")))
_ACCESS = prepare(
    select(api_keys.c.access_mode, api_keys.c.access_workflow_ids).where(api_keys.c.key_id == bindparam("key_id"))
)
_WORKFLOW_KNOWN = prepare(select(workflows.c.workflow_id).where(workflows.c.workflow_id == bindparam("workflow_id")))


def get(tx: Tx, key_id: str, day: int) -> Any:
    """A key with its counters of the UTC day, or None."""
    return tx.one(_GET, key_id=key_id, day=day)


def seen_by_caller(tx: Tx, key_id: str, day: int) -> Any:
    """What a key's caller may know of it, with its counters of the UTC day, or None."""
    return tx.one(_SEEN_BY_CALLER, key_id=key_id, day=day)


def all_records(tx: Tx, day: int) -> list[Any]:
    """Every key with its counters, newest first."""
    return tx.all(_LIST, day=day)


def mirror(tx: Tx) -> list[Any]:
    """Every key as the edges mirror it."""
    return tx.all(_MIRROR)


def add(tx: Tx, columns: dict[str, object]) -> None:
    """Writes a new key."""
    tx.enqueue(_INSERT, **columns)


def edit(tx: Tx, row: Any, changes: dict[str, object]) -> None:
    """Writes the changed columns of a key that was read as `row` in the same transaction."""
    values = {f"new_{name}": changes.get(name, getattr(row, name)) for name in _COLUMNS}
    tx.enqueue(_EDIT, of_key_id=row.key_id, **values)


def remove(tx: Tx, key_id: str) -> None:
    """Removes a key with its counters; runs, usage records and the audit trail stay."""
    tx.enqueue(_DELETE, key_id=key_id)


def access(tx: Tx, key_id: str) -> Any:
    """Which workflows a key may run, as mode and list; None for a key that is gone."""
    return tx.one(_ACCESS, key_id=key_id)


def workflow_known(tx: Tx, workflow_id: str) -> bool:
    """Whether a workflow of this id exists."""
    return tx.one(_WORKFLOW_KNOWN, workflow_id=workflow_id) is not None
