"""SQL of a start: what it is judged by, and what it leaves."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from sqlalchemy import BindParameter, and_, bindparam, func, insert, literal_column, select, update

from backend.run_status import IN_FLIGHT
from backend.storage.database import Tx
from backend.storage.purging import purge_of
from backend.storage.statements import prepare
from backend.storage.tables.deployment import deployments
from backend.storage.tables.keys import api_keys, daily_usage
from backend.storage.tables.runs import idempotency_records, runs, segments, status_in, steps
from backend.storage.tables.workflows import resource_revision

RUN_COLUMNS: Final = tuple(column.name for column in runs.columns)
SEGMENT_COLUMNS: Final = ("segment_id", "run_id", "ordinal", "state", "created_at", "last_seq")

_KEY: BindParameter[Any] = bindparam("of_key_id")
_IDEMPOTENCY_KEY: BindParameter[Any] = bindparam("of_idempotency_key")
_RECORD: Final = (
    idempotency_records.c.fingerprint,
    idempotency_records.c.run_id,
    idempotency_records.c.first_used_at,
)
_OF_RECORD: Final = and_(
    idempotency_records.c.key_id == _KEY, idempotency_records.c.idempotency_key == _IDEMPOTENCY_KEY
)
# Everything in one row, which is always there: the deployment's.
FACTS: Final = (
    select(
        api_keys.c.key_id,
        api_keys.c.access_mode,
        api_keys.c.access_workflow_ids,
        api_keys.c.max_concurrent_runs,
        api_keys.c.daily_run_quota,
        daily_usage.c.runs_started,
        select(func.count())
        .select_from(runs)
        .where(runs.c.key_id == _KEY, status_in(*IN_FLIGHT))
        .scalar_subquery()
        .label("active_runs"),
        deployments.c.licence_state,
        deployments.c.licence_reason,
        deployments.c.licence_enforcement_status,
        deployments.c.license_id,
        func.coalesce(select(resource_revision.c.revision).scalar_subquery(), literal_column("0")).label(
            "resource_revision"
        ),
        *_RECORD,
    )
    .select_from(deployments)
    .outerjoin(api_keys, api_keys.c.key_id == _KEY)
    .outerjoin(daily_usage, and_(daily_usage.c.key_id == _KEY, daily_usage.c.day == bindparam("of_day")))
    .outerjoin(idempotency_records, _OF_RECORD)
)
_FACTS = prepare(FACTS)
_FIND_RECORD = prepare(select(*_RECORD).where(_OF_RECORD))
_ADD_RECORD = prepare(insert(idempotency_records), [column.name for column in idempotency_records.columns])
_CHANGE_RECORD = prepare(
    update(idempotency_records)
    .where(_OF_RECORD)
    .values(
        {name: bindparam(f"new_{name}") for name in ("fingerprint", "run_id", "first_used_at")},
    )
)
_ADD_RUN = prepare(insert(runs), RUN_COLUMNS)
_ADD_STEP = prepare(insert(steps), [column.name for column in steps.columns])
_ADD_SEGMENT = prepare(insert(segments), SEGMENT_COLUMNS)
_FIRST_OF_DAY = prepare(insert(daily_usage), ["key_id", "day", "runs_started"])
_ONE_MORE = prepare(
    update(daily_usage)
    .where(daily_usage.c.key_id == _KEY, daily_usage.c.day == bindparam("of_day"))
    .values(runs_started=daily_usage.c.runs_started + literal_column("1"))
)

purge_records = purge_of(idempotency_records, idempotency_records.c.first_used_at)


def facts(tx: Tx, key_id: str, idempotency_key: str, day: int) -> Any:
    """Key, counters, licence, idempotency record and the resources' revision in one row; None is what is not there."""
    return tx.one(_FACTS, of_key_id=key_id, of_idempotency_key=idempotency_key, of_day=day)


def record(tx: Tx, key_id: str, idempotency_key: str) -> Any:
    """The idempotency record, or None."""
    return tx.one(_FIND_RECORD, of_key_id=key_id, of_idempotency_key=idempotency_key)


def bind(tx: Tx, record: Mapping[str, object], *, exists: bool) -> None:
    """Writes the idempotency record."""
    if not exists:
        tx.enqueue(_ADD_RECORD, **record)
        return
    tx.enqueue(
        _CHANGE_RECORD,
        of_key_id=record["key_id"],
        of_idempotency_key=record["idempotency_key"],
        **{f"new_{name}": record[name] for name in ("fingerprint", "run_id", "first_used_at")},
    )


def add_run(
    tx: Tx, run: Mapping[str, object], step_rows: Iterable[Mapping[str, object]], segment: Mapping[str, object]
) -> None:
    """Writes a run, its steps, and its first segment, which the launcher takes from there."""
    tx.enqueue(_ADD_RUN, **run)
    tx.many(_ADD_STEP, step_rows)
    tx.enqueue(_ADD_SEGMENT, **segment)


def count_start(tx: Tx, key_id: str, day: int, *, first: bool) -> None:
    """Takes one unit of the key's quota of that UTC day."""
    if first:
        tx.enqueue(_FIRST_OF_DAY, key_id=key_id, day=day, runs_started=1)
    else:
        tx.enqueue(_ONE_MORE, of_key_id=key_id, of_day=day)
