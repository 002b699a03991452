"""SQL of a start: the facts that it is judged by, and the rows that it writes."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import orjson
from sqlalchemy import BindParameter, and_, bindparam, func, insert, literal_column, select, update

from backend.run_status import IN_FLIGHT
from backend.storage.database import Tx
from backend.storage.purging import Purge
from backend.storage.statements import Command, Query, ScalarQuery, select_row
from backend.storage.tables.deployment import deployments
from backend.storage.tables.keys import api_keys, daily_usage
from backend.storage.tables.runs import idempotency_records, run_labels, runs, status_in
from backend.storage.tables.segments import segments, steps
from backend.storage.tables.webhooks import webhooks
from backend.storage.tables.workflows import resource_revision

RUN_COLUMNS: Final = tuple(column.name for column in runs.columns)
SEGMENT_COLUMNS: Final = ("segment_id", "run_id", "ordinal", "state", "created_at", "last_seq")
_ENDED_SEGMENT_COLUMNS: Final = (*SEGMENT_COLUMNS, "owner", "started_at", "ended_at")


class RecordRow(NamedTuple):
    """What an idempotency key is bound to."""

    fingerprint: str
    run_id: str | None
    first_used_at: int


class FactsRow(NamedTuple):
    """Everything in the database that a start depends on; None for what does not exist."""

    key_id: str | None
    access_mode: str | None
    access_workflow_ids: str | None
    max_concurrent_runs: int | None
    daily_run_quota: int | None
    runs_started: int | None
    active_runs: int
    licence_state: str
    licence_reason: str | None
    licence_enforcement_status: str | None
    license_id: str | None
    resource_revision: int
    fingerprint: str | None
    run_id: str | None
    first_used_at: int | None


_KEY: BindParameter[str] = bindparam("of_key_id")
_IDEMPOTENCY_KEY: BindParameter[str] = bindparam("of_idempotency_key")
_OF_RECORD: Final = and_(
    idempotency_records.c.key_id == _KEY, idempotency_records.c.idempotency_key == _IDEMPOTENCY_KEY
)
# One row, which always exists, as the deployment's does.
FACTS: Final = (
    select_row(
        FactsRow,
        api_keys,
        daily_usage,
        idempotency_records,
        deployments,
        active_runs=select(func.count())
        .select_from(runs)
        .where(runs.c.key_id == _KEY, status_in(*IN_FLIGHT))
        .scalar_subquery(),
        resource_revision=func.coalesce(select(resource_revision.c.revision).scalar_subquery(), literal_column("0")),
    )
    .select_from(deployments)
    .outerjoin(api_keys, api_keys.c.key_id == _KEY)
    .outerjoin(daily_usage, and_(daily_usage.c.key_id == _KEY, daily_usage.c.day == bindparam("of_day")))
    .outerjoin(idempotency_records, _OF_RECORD)
)
_FACTS = Query(FactsRow, FACTS)
_FIND_RECORD = Query(RecordRow, select_row(RecordRow, idempotency_records).where(_OF_RECORD))
_ADD_RECORD = Command(insert(idempotency_records), [column.name for column in idempotency_records.columns])
_CHANGE_RECORD = Command(
    update(idempotency_records)
    .where(_OF_RECORD)
    .values(
        {name: bindparam(f"new_{name}") for name in ("fingerprint", "run_id", "first_used_at")},
    )
)
_ADD_RUN = Command(insert(runs), RUN_COLUMNS)
_ADD_LABEL = Command(insert(run_labels), run_labels.columns.keys())
_ADD_STEP = Command(insert(steps), [column.name for column in steps.columns])
_ADD_SEGMENT = Command(insert(segments), SEGMENT_COLUMNS)
_ADD_ENDED_SEGMENT = Command(insert(segments), _ENDED_SEGMENT_COLUMNS)
_WEBHOOK_OF_KEY = ScalarQuery[str](select(webhooks.c.webhook_id).where(webhooks.c.key_id == _KEY))
_FIRST_OF_DAY = Command(insert(daily_usage), ["key_id", "day", "runs_started"])
_ONE_MORE = Command(
    update(daily_usage)
    .where(daily_usage.c.key_id == _KEY, daily_usage.c.day == bindparam("of_day"))
    .values(runs_started=daily_usage.c.runs_started + literal_column("1"))
)

purge_records = Purge(idempotency_records, idempotency_records.c.first_used_at)


def facts(tx: Tx, key_id: str, idempotency_key: str, day: int) -> FactsRow:
    """Returns key, counters, licence, idempotency record and the resources' revision in one row."""
    return tx.one(_FACTS, of_key_id=key_id, of_idempotency_key=idempotency_key, of_day=day)


def record(tx: Tx, key_id: str, idempotency_key: str) -> RecordRow | None:
    """Returns the idempotency record, or None."""
    return tx.first(_FIND_RECORD, of_key_id=key_id, of_idempotency_key=idempotency_key)


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
    tx: Tx,
    run: Mapping[str, object],
    step_rows: Iterable[Mapping[str, object]],
    segment: Mapping[str, object],
    *,
    ended: bool = False,
) -> None:
    """Writes a run, its steps, and its first segment, which is the outbox of the launcher unless it has ended."""
    tx.enqueue(_ADD_RUN, **run)
    labels = label_rows(run)
    if labels:
        tx.many(_ADD_LABEL, labels)
    tx.many(_ADD_STEP, step_rows)
    tx.enqueue(_ADD_ENDED_SEGMENT if ended else _ADD_SEGMENT, **segment)


def label_rows(run: Mapping[str, object]) -> list[dict[str, object]]:
    """Returns the rows of a run's labels, which people search by."""
    labels = run["labels"]
    if labels == "{}":
        return []
    assert isinstance(labels, str)
    of_run = {"run_id": run["run_id"], "created_at": run["created_at"]}
    return [{**of_run, "name": name, "value": value} for name, value in orjson.loads(labels).items()]


def has_webhooks(tx: Tx, key_id: str) -> bool:
    """Returns whether the key has a webhook."""
    return tx.exists(_WEBHOOK_OF_KEY, of_key_id=key_id)


def count_start(tx: Tx, key_id: str, day: int, *, first: bool) -> None:
    """Counts one start against the key's quota of that UTC day."""
    if first:
        tx.enqueue(_FIRST_OF_DAY, key_id=key_id, day=day, runs_started=1)
    else:
        tx.enqueue(_ONE_MORE, of_key_id=key_id, of_day=day)
