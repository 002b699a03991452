"""SQL of the texts of step attempts: logs, and transcripts of the messages of models."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from sqlalchemy import BindParameter, Table, bindparam, delete, func, insert, literal_column, select, update

from backend.storage.database import Tx
from backend.storage.object_keys import step_log_key, step_transcript_key
from backend.storage.retention import RetentionRule
from backend.storage.sql_expressions import Purge
from backend.storage.statements import Command, Query, ScalarQuery, select_row
from backend.storage.tables.runs import runs
from backend.storage.tables.segments import (
    StepLogPartRow,
    step_log_parts,
    step_logs,
    step_transcript_parts,
    step_transcripts,
    steps,
)


class LogRow(NamedTuple):
    """The log or transcript of one attempt, with the seq of its latest part, 0 for none."""

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

_HAS_DATA = ScalarQuery[str](select(runs.c.run_id).where(runs.c.run_id == _RUN, runs.c.data_purged_at.is_(None)))
_STEPS = Query(LoggedStepRow, select_row(LoggedStepRow, steps).where(steps.c.run_id == _RUN).order_by(steps.c.position))


class AttemptTexts(NamedTuple):
    """Statements on one kind of text of step attempts: a row for each, and its parts while there is no object.

    `key` returns the key of the object from run, step and attempt.
    """

    key: Callable[[str, str, int], str]
    insert: Command
    insert_part: Command
    delete_range: Command
    update_end: Command
    supersede: Command
    delete_parts: Command
    select_rows: Query[LogRow]
    select_parts: Query[StepLogPartRow]
    purge: Purge

    def begin(self, tx: Tx, run_id: str, step: str, attempt: int, at: int) -> None:
        """Writes the row of an attempt's text."""
        tx.enqueue(self.insert, run_id=run_id, step=step, attempt=attempt, began_at=at)

    def add_parts(self, tx: Tx, run_id: str, step: str, attempt: int, first: int, texts: Sequence[str]) -> None:
        """Writes parts with seqs from `first` on."""
        rows = [
            {"run_id": run_id, "step": step, "attempt": attempt, "seq": first + index, "text": text}
            for index, text in enumerate(texts)
        ]
        tx.many(self.insert_part, rows)

    def cut(self, tx: Tx, run_id: str, step: str, attempt: int, first: int, last: int) -> None:
        """Deletes the parts from `first` to before `last`."""
        tx.enqueue(self.delete_range, of_run_id=run_id, of_step=step, of_attempt=attempt, first=first, last=last)

    def end(
        self, tx: Tx, run_id: str, step: str, attempt: int, at: int, *, size_bytes: int | None, problem: str | None
    ) -> None:
        """Writes the end of a text.

        With a size it is stored as an object, which replaces the parts; with a problem the parts are deleted.
        """
        of_attempt = {"of_run_id": run_id, "of_step": step, "of_attempt": attempt}
        tx.enqueue(self.update_end, **of_attempt, at_ms=at, new_size=size_bytes, new_problem=problem)
        if problem is not None:
            tx.enqueue(self.delete_parts, **of_attempt)
        elif size_bytes is not None:
            tx.enqueue(self.supersede, **of_attempt, at_ms=at)

    def rows_of(self, tx: Tx, run_id: str) -> list[LogRow]:
        """Returns the texts of a run in the order of their beginnings."""
        return tx.all(self.select_rows, of_run_id=run_id)

    def parts_after(self, tx: Tx, run_id: str, step: str, attempt: int, after: int, most: int) -> list[StepLogPartRow]:
        """Returns parts of a text after a seq, in order."""
        return tx.all(self.select_parts, of_run_id=run_id, of_step=step, of_attempt=attempt, after=after, most=most)


def _texts(key: Callable[[str, str, int], str], texts: Table, parts: Table) -> AttemptTexts:
    of_text = (texts.c.run_id == _RUN, texts.c.step == _STEP, texts.c.attempt == _ATTEMPT)
    of_parts = (parts.c.run_id == _RUN, parts.c.step == _STEP, parts.c.attempt == _ATTEMPT)
    last_seq = (
        select(func.coalesce(func.max(parts.c.seq), literal_column("0")))
        .where(
            parts.c.run_id == texts.c.run_id,
            parts.c.step == texts.c.step,
            parts.c.attempt == texts.c.attempt,
        )
        .scalar_subquery()
    )
    in_range = (parts.c.seq >= bindparam("first"), parts.c.seq < bindparam("last"))
    ended: dict[str, Any] = {
        "ended_at": bindparam("at_ms"),
        "size_bytes": bindparam("new_size"),
        "problem": bindparam("new_problem"),
    }
    return AttemptTexts(
        key,
        insert=Command(insert(texts), ["run_id", "step", "attempt", "began_at"]),
        insert_part=Command(insert(parts), ["run_id", "step", "attempt", "seq", "text"]),
        delete_range=Command(delete(parts).where(*of_parts, *in_range)),
        update_end=Command(update(texts).where(*of_text).values(**ended)),
        supersede=Command(update(parts).where(*of_parts).values(superseded_at=bindparam("at_ms"))),
        delete_parts=Command(delete(parts).where(*of_parts)),
        select_rows=Query(
            LogRow,
            select_row(LogRow, texts, last_seq=last_seq)
            .where(texts.c.run_id == _RUN)
            .order_by(texts.c.began_at, texts.c.step, texts.c.attempt),
        ),
        select_parts=Query(
            StepLogPartRow,
            select_row(StepLogPartRow, parts)
            .where(*of_parts, parts.c.seq > bindparam("after"))
            .order_by(parts.c.seq)
            .limit(bindparam("most")),
        ),
        purge=Purge(parts, parts.c.superseded_at),
    )


LOGS: Final = _texts(step_log_key, step_logs, step_log_parts)
TRANSCRIPTS: Final = _texts(step_transcript_key, step_transcripts, step_transcript_parts)


def has_data(tx: Tx, run_id: str) -> bool:
    """Returns whether a run exists and its data was not erased; otherwise no log may be written for it."""
    return tx.exists(_HAS_DATA, of_run_id=run_id)


def steps_of(tx: Tx, run_id: str) -> list[LoggedStepRow]:
    """Returns the steps of a run in the order of the definition."""
    return tx.all(_STEPS, of_run_id=run_id)


_KEPT_MS: Final = 600_000
"""Milliseconds for which parts stay after an object has replaced them: a reader may be in their midst."""
_BATCH: Final = 1_000


@dataclass(frozen=True, slots=True)
class PartRetention:
    """Parts of logs and transcripts that a stored object has replaced, kept for readers that follow them."""

    name: str = "step_log_parts"
    kept_ms: int = _KEPT_MS

    def delete_batch(self, tx: Tx, now: int) -> int:
        """Deletes some expired parts; see `RetentionRule.delete_batch`."""
        return sum(texts.purge.delete_batch(tx, now - self.kept_ms, _BATCH) for texts in (LOGS, TRANSCRIPTS))


RETENTION: Final[tuple[RetentionRule, ...]] = (PartRetention(),)
