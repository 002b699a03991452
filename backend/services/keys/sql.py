"""SQL of keys and their current usage."""

from typing import NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    FromClause,
    Text,
    bindparam,
    case,
    delete,
    func,
    insert,
    literal_column,
    or_,
    select,
    tuple_,
    update,
)

from backend.storage.database import Tx
from backend.storage.sql_expressions import beginning, containing
from backend.storage.statements import Command, Query, ScalarQuery, select_row
from backend.storage.tables.keys import api_keys, daily_usage
from backend.storage.tables.model_usage import model_use_of_day
from backend.storage.tables.runs import runs_in_slots
from backend.storage.tables.workflows import workflows


class CallerKeyRow(NamedTuple):
    """The columns of a key that its caller may see, with its counters."""

    key_id: str
    name: str
    deployment_id: str
    scopes: str
    access_mode: str
    access_workflow_ids: str
    expires_at: int
    rate_limit_rpm: int
    daily_run_quota: int
    max_concurrent_runs: int
    quota_used_today: int
    active_runs: int


class KeyRow(NamedTuple):
    """A key in full, with its counters."""

    key_id: str
    deployment_id: str
    name: str
    description: str
    secret_sha256: str
    previous_secret_sha256: str | None
    previous_secret_expires_at: int | None
    external_id_sha256: str
    scopes: str
    access_mode: str
    access_workflow_ids: str
    source_allow_list: str
    start_hour: int | None
    end_hour: int | None
    created_at: int
    expires_at: int
    rate_limit_rpm: int
    daily_run_quota: int
    max_concurrent_runs: int
    revoked_at: int | None
    daily_tokens: int | None
    daily_cost_microusd: int | None
    priority: str
    quota_used_today: int
    active_runs: int
    tokens_today: int
    cost_today_microusd: int


class MirroredKeyRow(NamedTuple):
    """The columns of a key that an edge mirrors."""

    key_id: str
    deployment_id: str
    secret_sha256: str
    previous_secret_sha256: str | None
    previous_secret_expires_at: int | None
    external_id_sha256: str
    scopes: str
    source_allow_list: str
    start_hour: int | None
    end_hour: int | None
    expires_at: int
    rate_limit_rpm: int
    revoked_at: int | None


class KeyNameRow(NamedTuple):
    """Id and name of a key."""

    key_id: str
    name: str


class KeySearchRow(NamedTuple):
    """Columns of a key that a search returns."""

    key_id: str
    name: str
    created_at: int
    expires_at: int
    previous_secret_expires_at: int | None
    revoked_at: int | None


class AccessRow(NamedTuple):
    """Workflows that a key may run."""

    access_mode: str
    access_workflow_ids: str


_COLUMNS = [column.name for column in api_keys.columns]


def _counters(keys: FromClause) -> dict[str, ColumnElement[int]]:
    """Returns the counters of keys of a table or subquery."""
    started_today = (
        select(daily_usage.c.runs_started)
        .where(daily_usage.c.key_id == keys.c.key_id, daily_usage.c.day == bindparam("day"))
        .scalar_subquery()
    )
    return {"quota_used_today": func.coalesce(started_today, 0), "active_runs": runs_in_slots(keys.c.key_id)}


_COUNTERS = _counters(api_keys)


def _all_counters(keys: FromClause) -> dict[str, ColumnElement[int]]:
    tokens, cost = model_use_of_day(keys.c.key_id, bindparam("day"))
    return {**_counters(keys), "tokens_today": tokens, "cost_today_microusd": cost}


_OF_KEY = api_keys.c.key_id == bindparam("key_id")
_GET_FOR_CALLER = Query(CallerKeyRow, select_row(CallerKeyRow, api_keys, **_COUNTERS).where(_OF_KEY))
_GET = Query(KeyRow, select_row(KeyRow, api_keys, **_all_counters(api_keys)).where(_OF_KEY))
# Counters are read only for the keys of the page.
_PAGE = (
    select(api_keys)
    .where(
        tuple_(api_keys.c.created_at, api_keys.c.key_id)
        < tuple_(bindparam("before", type_=BigInteger), bindparam("before_id", type_=Text))
    )
    .order_by(api_keys.c.created_at.desc(), api_keys.c.key_id.desc())
    .limit(bindparam("limit"))
    .subquery("page")
)
_NEWEST = Query(
    KeyRow,
    select_row(KeyRow, _PAGE, **_all_counters(_PAGE)).order_by(_PAGE.c.created_at.desc(), _PAGE.c.key_id.desc()),
)
_TEXT = bindparam("text", type_=Text)
_SEARCH = Query(
    KeySearchRow,
    select_row(KeySearchRow, api_keys)
    .where(
        or_(
            *(
                column.ilike(_TEXT, escape="\\")
                for column in (api_keys.c.name, api_keys.c.key_id, api_keys.c.description)
            )
        )
    )
    .order_by(
        case(
            (api_keys.c.name.ilike(bindparam("beginning", type_=Text), escape="\\"), literal_column("0")),
            else_=literal_column("1"),
        ),
        api_keys.c.name,
        api_keys.c.key_id,
    )
    .limit(bindparam("limit")),
)
_NAMES = Query(
    KeyNameRow,
    select(api_keys.c.key_id, api_keys.c.name).order_by(api_keys.c.created_at.desc()).limit(bindparam("limit")),
)
_MIRROR = Query(MirroredKeyRow, select_row(MirroredKeyRow, api_keys))
_INSERT = Command(insert(api_keys), _COLUMNS)
_EDIT = Command(
    update(api_keys)
    .where(api_keys.c.key_id == bindparam("of_key_id"))
    .values({name: bindparam(f"new_{name}") for name in _COLUMNS if name not in {"key_id", "deployment_id"}})
)
_DELETE = Command(delete(api_keys).where(_OF_KEY))
_ACCESS = Query(AccessRow, select_row(AccessRow, api_keys).where(_OF_KEY))
_WORKFLOW_EXISTS = ScalarQuery[str](
    select(workflows.c.workflow_id).where(
        workflows.c.workflow_id == bindparam("workflow_id"), workflows.c.deleted_at.is_(None)
    )
)


def get(tx: Tx, key_id: str, day: int) -> KeyRow | None:
    """Returns a key with its counters of the UTC day, or None."""
    return tx.first(_GET, key_id=key_id, day=day)


def get_for_caller(tx: Tx, key_id: str, day: int) -> CallerKeyRow | None:
    """Returns the columns of a key that its caller may see, with its counters of the UTC day, or None."""
    return tx.first(_GET_FOR_CALLER, key_id=key_id, day=day)


def newest(tx: Tx, day: int, *, before: int, before_id: str, limit: int) -> list[KeyRow]:
    """Returns keys with their counters, newest first, that come after the key `before_id`, created at `before`."""
    return tx.all(_NEWEST, day=day, before=before, before_id=before_id, limit=limit)


def search(tx: Tx, text: str, limit: int) -> list[KeySearchRow]:
    """Returns keys whose name, id or description contains a text; keys whose name begins with it come first."""
    return tx.all(_SEARCH, text=containing(text), beginning=beginning(text), limit=limit)


def names(tx: Tx, limit: int) -> dict[str, str]:
    """Returns the names of the newest keys by their ids."""
    return {row.key_id: row.name for row in tx.all(_NAMES, limit=limit)}


def mirror(tx: Tx) -> list[MirroredKeyRow]:
    """Returns the columns of every key that edges mirror."""
    return tx.all(_MIRROR)


def add(tx: Tx, columns: dict[str, object]) -> None:
    """Writes a new key."""
    tx.enqueue(_INSERT, **columns)


def edit(tx: Tx, row: KeyRow, changes: dict[str, object]) -> None:
    """Writes the changed columns of a key that was read as `row` in the same transaction."""
    values = row._asdict() | changes
    tx.enqueue(_EDIT, of_key_id=row.key_id, **{f"new_{name}": values[name] for name in _COLUMNS})


def remove(tx: Tx, key_id: str) -> None:
    """Removes a key with its counters; runs, usage records and the audit trail stay."""
    tx.enqueue(_DELETE, key_id=key_id)


def access(tx: Tx, key_id: str) -> AccessRow | None:
    """Returns the workflows that a key may run, as mode and list; None for a deleted key."""
    return tx.first(_ACCESS, key_id=key_id)


def workflow_exists(tx: Tx, workflow_id: str) -> bool:
    """Returns whether a workflow that was not deleted has this id."""
    return tx.exists(_WORKFLOW_EXISTS, workflow_id=workflow_id)
