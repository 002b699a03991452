"""SQL of what runs take in database and object store, estimated from the newest runs of each workflow.

A run's rows are found by indexes that begin with its id. Their bytes are the lengths of the columns' stored values, on
PostgreSQL as compressed there, and a constant for the header of each row; indexes and free space are left out.
"""

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Final, NamedTuple

from sqlalchemy import BigInteger, ColumnElement, Table, Text, bindparam, cast, func, literal_column, select, tuple_
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import GenericFunction

from backend.storage.database import Tx
from backend.storage.statements import Query, ScalarQuery, select_row
from backend.storage.tables.files import outputs, publications, shared_files, upload_files, uploads
from backend.storage.tables.model_usage import model_usage
from backend.storage.tables.runs import interruptions, run_labels, run_traces, runs
from backend.storage.tables.segments import (
    approvals,
    events,
    segments,
    step_items,
    step_log_parts,
    step_logs,
    step_transcript_parts,
    step_transcripts,
    steps,
)
from backend.storage.tables.webhooks import webhook_deliveries
from backend.storage.tables.workflows import workflows

MOST_SAMPLED: Final = 20
MOST_COUNTED: Final = 10_000

_ROW_BYTES: Final = 24
_RUN_IDS: Final = [f"run_id_{number}" for number in range(MOST_SAMPLED)]
_WITH_RUN_ID: Final = (
    *(runs, run_labels, run_traces, interruptions, segments, steps, step_items, approvals, model_usage),
    *(step_logs, step_log_parts, step_transcripts, step_transcript_parts),
    *(outputs, shared_files, uploads, publications, webhook_deliveries),
)


class NamedWorkflowRow(NamedTuple):
    """A workflow, also a deleted one, by its stored name."""

    workflow_id: str
    name: str


class SampledRunRow(NamedTuple):
    """A run that may be sampled."""

    run_id: str
    data_purged_at: int | None


class stored_bytes(GenericFunction[int]):  # noqa: N801 - it is called as a function of SQL
    """The bytes of a stored value; NULL of NULL."""

    type = BigInteger()
    inherit_cache = True


@compiles(stored_bytes, "sqlite")
def _compile_for_sqlite(element: stored_bytes, compiler: SQLCompiler, **options: object) -> str:
    return f"length(CAST({compiler.process(element.clauses, **options)} AS BLOB))"


@compiles(stored_bytes, "postgresql")
def _compile_for_postgresql(element: stored_bytes, compiler: SQLCompiler, **options: object) -> str:
    return f"pg_column_size({compiler.process(element.clauses, **options)})"


def _sampled(column: ColumnElement[str]) -> ColumnElement[bool]:
    return column.in_([bindparam(name) for name in _RUN_IDS])


def _row_bytes(table: Table) -> ColumnElement[int]:
    none: ColumnElement[int] = literal_column("0")
    values = (func.coalesce(stored_bytes(column), none) for column in table.columns)
    return sum(values, start=literal_column(str(_ROW_BYTES)))


def _total(table: Table, each: ColumnElement[int], *conditions: ColumnElement[bool]) -> ColumnElement[int]:
    none: ColumnElement[int] = literal_column("0")
    found = select(func.coalesce(func.sum(each), none)).select_from(table).where(*conditions)
    return cast(found.scalar_subquery(), BigInteger)


def _added(totals: Iterable[ColumnElement[int]]) -> ScalarQuery[int]:
    first, *others = totals
    return ScalarQuery[int](select(sum(others, start=first)))


_OF_SEGMENTS: Final = events.c.segment_id.in_(select(segments.c.segment_id).where(_sampled(segments.c.run_id)))
_OF_UPLOADS: Final = upload_files.c.upload_id.in_(select(uploads.c.upload_id).where(_sampled(uploads.c.run_id)))
_IN_ROW: Final[ColumnElement[str]] = (
    literal_column("'runs/'", Text) + outputs.c.run_id + literal_column("'/row/result'", Text)
)
"""The key of a result in its run's row: `backend.storage.object_keys.result_row_key`."""

_DATABASE_BYTES = _added(
    [
        *(_total(table, _row_bytes(table), _sampled(table.c.run_id)) for table in _WITH_RUN_ID),
        _total(events, _row_bytes(events), _OF_SEGMENTS),
        _total(upload_files, _row_bytes(upload_files), _OF_UPLOADS),
    ]
)
_OBJECT_BYTES = _added(
    [
        _total(outputs, outputs.c.size_bytes, _sampled(outputs.c.run_id), outputs.c.object_key != _IN_ROW),
        *(
            _total(table, table.c.size_bytes, _sampled(table.c.run_id))
            for table in (shared_files, step_logs, step_transcripts)
        ),
        _total(upload_files, upload_files.c.stored_bytes, _OF_UPLOADS),
    ]
)

_WORKFLOWS = Query(
    NamedWorkflowRow,
    select_row(NamedWorkflowRow, workflows)
    .where(tuple_(workflows.c.name, workflows.c.workflow_id) > tuple_(bindparam("after_name"), bindparam("after_id")))
    .order_by(workflows.c.name, workflows.c.workflow_id)
    .limit(bindparam("limit")),
)
_ENDED: Final = (
    runs.c.finished_at.is_not(None),
    runs.c.workflow_id == bindparam("of_workflow"),
    runs.c.finished_at >= bindparam("since", type_=BigInteger),
)
_NEWEST = Query(
    SampledRunRow,
    select_row(SampledRunRow, runs)
    .where(*_ENDED)
    .order_by(runs.c.finished_at.desc(), runs.c.run_id.desc())
    .limit(literal_column(str(MOST_SAMPLED)))
    .with_hint(runs, "INDEXED BY ix_runs_ended_of_workflow", "sqlite"),
)
_COUNTED: Final = (
    select(runs.c.run_id)
    .where(*_ENDED)
    .limit(literal_column(str(MOST_COUNTED + 1)))
    .with_hint(runs, "INDEXED BY ix_runs_ended_of_workflow", "sqlite")
    .subquery()
)
_COUNT = ScalarQuery[int](select(func.count()).select_from(_COUNTED))


def workflows_after(tx: Tx, name: str, workflow_id: str, limit: int) -> list[NamedWorkflowRow]:
    """Returns workflows in the order of their names, after a position."""
    return tx.all(_WORKFLOWS, after_name=name, after_id=workflow_id, limit=limit)


def ended_since(tx: Tx, workflow_id: str, since: int) -> int:
    """Returns how many runs of a workflow ended since a time, at most one more than `MOST_COUNTED`."""
    return tx.scalar(_COUNT, of_workflow=workflow_id, since=since) or 0


def newest_with_data(tx: Tx, workflow_id: str, since: int) -> tuple[list[str], int]:
    """Returns those of a workflow's newest runs that have data, and of how many they are."""
    newest = tx.all(_NEWEST, of_workflow=workflow_id, since=since)
    return [row.run_id for row in newest if row.data_purged_at is None], len(newest)


def bytes_of(tx: Tx, run_ids: Sequence[str]) -> tuple[int, int]:
    """Returns the bytes of objects and of rows of some runs, of 1 to `MOST_SAMPLED`."""
    # A repeated id changes nothing of a set.
    given = dict(zip_longest(_RUN_IDS, run_ids, fillvalue=run_ids[0]))
    return tx.scalar(_OBJECT_BYTES, **given) or 0, tx.scalar(_DATABASE_BYTES, **given) or 0
