"""SQL of a start: reads the facts for its checks, and writes runs, segments and idempotency records."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, cycle
from typing import Final, NamedTuple

import orjson
from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Integer,
    and_,
    bindparam,
    case,
    func,
    insert,
    literal_column,
    or_,
    select,
    update,
)

from backend.services.runs.lifecycle_sql import ADD_APPROVAL, ADD_EVENT
from backend.storage.database import Tx
from backend.storage.sql_expressions import Purge
from backend.storage.statements import Command, Query, RowInsert, ScalarQuery, select_row
from backend.storage.tables.deployment import deployments
from backend.storage.tables.keys import api_keys, daily_usage
from backend.storage.tables.model_usage import model_use_of_day
from backend.storage.tables.runs import RunRow, idempotency_records, run_labels, run_traces, runs, runs_in_slots
from backend.storage.tables.segments import EventRow, SegmentRow, StepRow, segments, steps
from backend.storage.tables.webhooks import webhooks
from backend.storage.tables.workflows import resource_revision

Row = Mapping[str, object]

RUN_COLUMNS: Final = tuple(column.name for column in runs.columns)
SEGMENT_COLUMNS: Final = ("segment_id", "run_id", "ordinal", "state", "created_at", "last_seq")


class RecordRow(NamedTuple):
    """An idempotency record: request fingerprint, run, and time of the first use."""

    fingerprint: str
    run_id: str | None
    first_used_at: int


class KeyedRecordRow(NamedTuple):
    """An idempotency record with its keys."""

    key_id: str
    idempotency_key: str
    fingerprint: str
    run_id: str | None
    first_used_at: int


class FactsRow(NamedTuple):
    """Everything in the database that a start depends on: key, usage, licence, idempotency record; None if absent."""

    key_id: str | None
    access_mode: str | None
    access_workflow_ids: str | None
    max_concurrent_runs: int | None
    daily_run_quota: int | None
    daily_tokens: int | None
    daily_cost_microusd: int | None
    runs_started: int | None
    active_runs: int
    tokens_used: int
    cost_used_microusd: int
    licence_state: str
    licence_reason: str | None
    licence_enforcement_status: str | None
    license_id: str | None
    resource_revision: int
    fingerprint: str | None
    run_id: str | None
    first_used_at: int | None


@dataclass(slots=True)
class StartRows:
    """Rows of starts, by their tables; the launcher polls the table of segments for queued ones."""

    records: list[Row] = field(default_factory=list)
    runs: list[RunRow] = field(default_factory=list)
    steps: list[StepRow] = field(default_factory=list)
    segments: list[SegmentRow] = field(default_factory=list)
    events: list[EventRow] = field(default_factory=list)
    approvals: list[Row] = field(default_factory=list)
    traces: list[Row] = field(default_factory=list)


class ParentRow(NamedTuple):
    """A parent run: columns that its children inherit, and the number of its children."""

    key_id: str
    triggered_by: str
    client_reference: str | None
    labels: str
    depth: int
    children: int


_KEY: BindParameter[str] = bindparam("of_key_id")
_IDEMPOTENCY_KEY: BindParameter[str] = bindparam("of_idempotency_key")
_OF_RECORD: Final = and_(
    idempotency_records.c.key_id == _KEY, idempotency_records.c.idempotency_key == _IDEMPOTENCY_KEY
)
_NONE_USED: Final[ColumnElement[int]] = literal_column("0")
_TOKENS, _COST = model_use_of_day(_KEY, bindparam("of_day"))
# Joined to the deployment's row, which always exists, so that there is always one row. Only keys with a limit pay for
# the sums.
FACTS: Final = (
    select_row(
        FactsRow,
        api_keys,
        daily_usage,
        idempotency_records,
        deployments,
        active_runs=runs_in_slots(_KEY),
        tokens_used=case((api_keys.c.daily_tokens.is_not(None), _TOKENS), else_=_NONE_USED),
        cost_used_microusd=case((api_keys.c.daily_cost_microusd.is_not(None), _COST), else_=_NONE_USED),
        resource_revision=func.coalesce(select(resource_revision.c.revision).scalar_subquery(), literal_column("0")),
    )
    .select_from(deployments)
    .outerjoin(api_keys, api_keys.c.key_id == _KEY)
    .outerjoin(daily_usage, and_(daily_usage.c.key_id == _KEY, daily_usage.c.day == bindparam("of_day")))
    .outerjoin(idempotency_records, _OF_RECORD)
)
_FACTS = Query(FactsRow, FACTS)
_FIND_RECORD = Query(RecordRow, select_row(RecordRow, idempotency_records).where(_OF_RECORD))
_PAIRS: Final = [(f"key_id_{number}", f"idempotency_key_{number}") for number in range(16)]
_PAIR_NAMES: Final = tuple(chain.from_iterable(_PAIRS))
_FIND_RECORDS = Query(
    KeyedRecordRow,
    select_row(KeyedRecordRow, idempotency_records).where(
        or_(
            *(
                and_(
                    idempotency_records.c.key_id == bindparam(key_id),
                    idempotency_records.c.idempotency_key == bindparam(idempotency_key),
                )
                for key_id, idempotency_key in _PAIRS
            )
        )
    ),
)
_ADD_RECORD = Command(insert(idempotency_records), [column.name for column in idempotency_records.columns])
_CHANGE_RECORD = Command(
    update(idempotency_records)
    .where(_OF_RECORD)
    .values(
        {name: bindparam(f"new_{name}") for name in ("fingerprint", "run_id", "first_used_at")},
    )
)
_ADD_RUN = RowInsert(RunRow, runs)
_ADD_LABEL = Command(insert(run_labels), run_labels.columns.keys())
_ADD_TRACE = Command(insert(run_traces), run_traces.columns.keys())
_ADD_STEP = RowInsert(StepRow, steps)
_ADD_SEGMENT = RowInsert(SegmentRow, segments)
_WEBHOOK_OF_KEY = ScalarQuery[str](select(webhooks.c.webhook_id).where(webhooks.c.key_id == _KEY))
_FIRST_OF_DAY = Command(insert(daily_usage), ["key_id", "day", "runs_started"])
_MORE_OF_DAY = Command(
    update(daily_usage)
    .where(daily_usage.c.key_id == _KEY, daily_usage.c.day == bindparam("of_day"))
    .values(runs_started=daily_usage.c.runs_started + bindparam("more"))
)
_SET_RESUMED_BY = Command(
    update(runs)
    .where(
        runs.c.run_id == bindparam("of_run_id"),
        runs.c.data_purged_at.is_(None),
        or_(runs.c.resumed_by.is_(None), bindparam("again", type_=Integer) == literal_column("1")),
    )
    .values(resumed_by=bindparam("new_run_id"))
)

purge_records = Purge(idempotency_records, idempotency_records.c.first_used_at)
_OF_RUN: Final[BindParameter[str]] = bindparam("of_run_id")
_CHILD = runs.alias("child")
_CHILDREN = select(func.count()).select_from(_CHILD).where(_CHILD.c.parent_run_id == _OF_RUN).scalar_subquery()
_PARENT = Query(ParentRow, select_row(ParentRow, runs, children=_CHILDREN).where(runs.c.run_id == _OF_RUN))
_RUN_EXISTS = ScalarQuery[str](select(runs.c.run_id).where(runs.c.run_id == _OF_RUN))


def facts(tx: Tx, key_id: str, idempotency_key: str, day: int) -> FactsRow:
    """Returns key, counters, licence, idempotency record and the resources' revision in one row."""
    return tx.one(_FACTS, of_key_id=key_id, of_idempotency_key=idempotency_key, of_day=day)


def record(tx: Tx, key_id: str, idempotency_key: str) -> RecordRow | None:
    """Returns the idempotency record, or None."""
    return tx.first(_FIND_RECORD, of_key_id=key_id, of_idempotency_key=idempotency_key)


def records(tx: Tx, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], KeyedRecordRow]:
    """Returns existing idempotency records by (API key, idempotency key), 16 with one statement."""
    found = {}
    for first in range(0, len(keys), len(_PAIRS)):
        some = keys[first : first + len(_PAIRS)]
        values = chain(chain.from_iterable(some), cycle(some[-1]))
        for row in tx.all(_FIND_RECORDS, **dict(zip(_PAIR_NAMES, values, strict=False))):
            found[row.key_id, row.idempotency_key] = row
    return found


def overwrite_record(tx: Tx, record: Mapping[str, object]) -> None:
    """Overwrites an idempotency record that has expired or whose start was refused."""
    tx.enqueue(
        _CHANGE_RECORD,
        of_key_id=record["key_id"],
        of_idempotency_key=record["idempotency_key"],
        **{f"new_{name}": record[name] for name in ("fingerprint", "run_id", "first_used_at")},
    )


def add(tx: Tx, rows: StartRows) -> None:
    """Writes idempotency records, runs with their labels, their segments, steps, events and approvals."""
    tx.many(_ADD_RECORD, rows.records)
    tx.insert(_ADD_RUN, rows.runs)
    tx.many(_ADD_LABEL, chain.from_iterable(map(label_rows, rows.runs)))
    tx.many(_ADD_TRACE, rows.traces)
    tx.insert(_ADD_SEGMENT, rows.segments)
    tx.insert(_ADD_STEP, rows.steps)
    tx.insert(ADD_EVENT, rows.events)
    tx.many(ADD_APPROVAL, rows.approvals)


def label_rows(run: RunRow) -> list[Row]:
    """Returns the rows of a run's labels for the search; none for a child run, which is listed under its parent."""
    if run.labels == "{}" or run.parent_run_id is not None:
        return []
    of_run = {"run_id": run.run_id, "created_at": run.created_at}
    return [{**of_run, "name": name, "value": value} for name, value in orjson.loads(run.labels).items()]


def trace_row(run_id: str, trace: tuple[str, str | None]) -> Row:
    """Returns the row of the trace context that starts a run."""
    return {"run_id": run_id, "traceparent": trace[0], "tracestate": trace[1]}


def has_webhooks(tx: Tx, key_id: str) -> bool:
    """Returns whether the key has a webhook."""
    return tx.exists(_WEBHOOK_OF_KEY, of_key_id=key_id)


def set_resumed_by(tx: Tx, run_id: str, new_run_id: str, *, again: bool) -> bool:
    """Sets the run that resumes an ended run.

    Returns False, without a change, if the run was erased, or, unless `again`, another run has resumed it.
    """
    tx.announce(run_id)
    return tx.run(_SET_RESUMED_BY, of_run_id=run_id, new_run_id=new_run_id, again=int(again)) == 1


def count_starts(tx: Tx, key_id: str, day: int, number: int, *, first: bool) -> None:
    """Adds starts to the key's usage of a UTC day; `first` says that the day has no row yet."""
    if first:
        tx.enqueue(_FIRST_OF_DAY, key_id=key_id, day=day, runs_started=number)
    else:
        tx.enqueue(_MORE_OF_DAY, of_key_id=key_id, of_day=day, more=number)


def parent(tx: Tx, run_id: str) -> ParentRow:
    """Returns a parent run, which must exist, with the number of its children."""
    return tx.one(_PARENT, of_run_id=run_id)


def run_exists(tx: Tx, run_id: str) -> bool:
    """Returns whether a run exists."""
    return tx.exists(_RUN_EXISTS, of_run_id=run_id)
