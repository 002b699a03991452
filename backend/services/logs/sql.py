"""SQL of the logs of step attempts."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from sqlalchemy import BindParameter, ColumnElement, bindparam, delete, func, insert, literal_column, select, update

from backend.storage.database import Tx
from backend.storage.retention import RowRetention
from backend.storage.sql_expressions import Purge
from backend.storage.statements import Command, Query, ScalarQuery, select_row
from backend.storage.tables.runs import runs
from backend.storage.tables.segments import StepLogPartRow, step_log_parts, step_logs, steps


class LogRow(NamedTuple):
    """The log of one attempt, with the seq of its latest part, 0 for none."""

    run_id: str
    step: str
    attempt: int
    began_at: int
    ended_at: int | None
    size_bytes: int | None
    problem: str | None
    last_seq: int


class LoggedStepRow(NamedTuple):
    """A step of a run, its latest attempt, and its number of items, None if it is no fan-out."""

    step: str
    kind: str
    attempt: int
    items_total: int | None


_RUN: Final[BindParameter[str]] = bindparam("of_run_id")
_STEP: Final[BindParameter[str]] = bindparam("of_step")
_ATTEMPT: Final[BindParameter[int]] = bindparam("of_attempt")
_LOG: Final[tuple[ColumnElement[bool], ...]] = (
    step_logs.c.run_id == _RUN,
    step_logs.c.step == _STEP,
    step_logs.c.attempt == _ATTEMPT,
)
_PARTS: Final[tuple[ColumnElement[bool], ...]] = (
    step_log_parts.c.run_id == _RUN,
    step_log_parts.c.step == _STEP,
    step_log_parts.c.attempt == _ATTEMPT,
)

_HAS_DATA = ScalarQuery[str](select(runs.c.run_id).where(runs.c.run_id == _RUN, runs.c.data_purged_at.is_(None)))
_BEGIN = Command(insert(step_logs), ["run_id", "step", "attempt", "began_at"])
_ADD_PART = Command(insert(step_log_parts), ["run_id", "step", "attempt", "seq", "text"])
_CUT = Command(
    delete(step_log_parts).where(
        *_PARTS, step_log_parts.c.seq >= bindparam("first"), step_log_parts.c.seq < bindparam("last")
    )
)
_END = Command(
    update(step_logs)
    .where(*_LOG)
    .values(ended_at=bindparam("at_ms"), size_bytes=bindparam("new_size"), problem=bindparam("new_problem"))
)
_SUPERSEDE = Command(update(step_log_parts).where(*_PARTS).values(superseded_at=bindparam("at_ms")))
_DELETE_PARTS = Command(delete(step_log_parts).where(*_PARTS))
_LAST_SEQ = (
    select(func.coalesce(func.max(step_log_parts.c.seq), literal_column("0")))
    .where(
        step_log_parts.c.run_id == step_logs.c.run_id,
        step_log_parts.c.step == step_logs.c.step,
        step_log_parts.c.attempt == step_logs.c.attempt,
    )
    .scalar_subquery()
)
_LOGS = Query(
    LogRow,
    select_row(LogRow, step_logs, last_seq=_LAST_SEQ)
    .where(step_logs.c.run_id == _RUN)
    .order_by(step_logs.c.began_at, step_logs.c.step, step_logs.c.attempt),
)
_STEPS = Query(LoggedStepRow, select_row(LoggedStepRow, steps).where(steps.c.run_id == _RUN).order_by(steps.c.position))
_READ_PARTS = Query(
    StepLogPartRow,
    select_row(StepLogPartRow, step_log_parts)
    .where(*_PARTS, step_log_parts.c.seq > bindparam("after"))
    .order_by(step_log_parts.c.seq)
    .limit(bindparam("most")),
)

purge_parts = Purge(step_log_parts, step_log_parts.c.superseded_at)


def has_data(tx: Tx, run_id: str) -> bool:
    """Returns whether a run exists and its data was not erased; otherwise no log may be written for it."""
    return tx.exists(_HAS_DATA, of_run_id=run_id)


def begin(tx: Tx, run_id: str, step: str, attempt: int, at: int) -> None:
    """Writes the row of an attempt's log."""
    tx.enqueue(_BEGIN, run_id=run_id, step=step, attempt=attempt, began_at=at)


def add_parts(tx: Tx, run_id: str, step: str, attempt: int, first: int, texts: Sequence[str]) -> None:
    """Writes parts with seqs from `first` on."""
    rows = [
        {"run_id": run_id, "step": step, "attempt": attempt, "seq": first + index, "text": text}
        for index, text in enumerate(texts)
    ]
    tx.many(_ADD_PART, rows)


def cut(tx: Tx, run_id: str, step: str, attempt: int, first: int, last: int) -> None:
    """Deletes the parts from `first` to before `last`."""
    tx.enqueue(_CUT, of_run_id=run_id, of_step=step, of_attempt=attempt, first=first, last=last)


def end(tx: Tx, run_id: str, step: str, attempt: int, at: int, *, size_bytes: int | None, problem: str | None) -> None:
    """Writes the end of a log.

    With a size the log is stored as an object, which replaces the parts; with a problem the parts are deleted.
    """
    log = {"of_run_id": run_id, "of_step": step, "of_attempt": attempt}
    tx.enqueue(_END, **log, at_ms=at, new_size=size_bytes, new_problem=problem)
    if problem is not None:
        tx.enqueue(_DELETE_PARTS, **log)
    elif size_bytes is not None:
        tx.enqueue(_SUPERSEDE, **log, at_ms=at)


def steps_of(tx: Tx, run_id: str) -> list[LoggedStepRow]:
    """Returns the steps of a run in the order of the definition."""
    return tx.all(_STEPS, of_run_id=run_id)


def logs_of(tx: Tx, run_id: str) -> list[LogRow]:
    """Returns the logs of a run in the order of their beginnings."""
    return tx.all(_LOGS, of_run_id=run_id)


def parts_after(tx: Tx, run_id: str, step: str, attempt: int, after: int, most: int) -> list[StepLogPartRow]:
    """Returns parts of a log after a seq, in order."""
    return tx.all(_READ_PARTS, of_run_id=run_id, of_step=step, of_attempt=attempt, after=after, most=most)


_KEPT_MS: Final = 600_000
"""Milliseconds for which parts stay after an object has replaced them: a reader may be in their midst."""

RETENTION: Final = (RowRetention("step_log_parts", _KEPT_MS, purge_parts),)
