"""SQL of an erasure: it clears content and requests the removal of objects."""

from typing import Final, NamedTuple

from sqlalchemy import BindParameter, bindparam, case, delete, insert, literal_column, null, select, update

from backend.storage.database import Tx
from backend.storage.statements import Command, Query, ScalarQuery, select_row
from backend.storage.tables.files import RemovalRow, outputs, pending_removals, shared_files
from backend.storage.tables.runs import NO_CHILD, run_traces, runs
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


class ErasableRow(NamedTuple):
    """A finished run whose data can be erased, with the columns that the erasure changes or depends on."""

    run_id: str
    warnings: str
    started_at: int | None
    pii_redaction: str | None


_CONTENT: Final = (
    "parameters",
    "input_text",
    "inputs_manifest",
    "error_message",
    "summary_markdown",
    "result",
    "result_error_message",
    "result_output_id",
    "result_size_bytes",
    "result_sha256",
    "cancel_reason",
)

_RUN: BindParameter[str] = bindparam("of_run_id")
_CLEAR = Command(
    update(runs)
    .where(runs.c.run_id == _RUN)
    .values(
        dict.fromkeys(_CONTENT, null())
        | {
            "warnings": bindparam("new_warnings"),
            "pii_redaction": bindparam("new_pii_redaction"),
            "data_purged_at": bindparam("at_ms"),
            # No outputs are left to sweep.
            "redaction_state": case((runs.c.redaction_state == "pending", "done"), else_=runs.c.redaction_state),
        }
    )
)
_SEGMENTS_OF_RUN: Final = select(segments.c.segment_id).where(segments.c.run_id == _RUN)
_DELETIONS: Final = (
    Command(delete(events).where(events.c.segment_id.in_(_SEGMENTS_OF_RUN))),
    Command(delete(steps).where(steps.c.run_id == _RUN)),
    Command(delete(step_items).where(step_items.c.run_id == _RUN)),
    Command(delete(approvals).where(approvals.c.run_id == _RUN)),
    # The caller's `tracestate` may hold personal data.
    Command(delete(run_traces).where(run_traces.c.run_id == _RUN)),
    Command(delete(outputs).where(outputs.c.run_id == _RUN)),
    Command(delete(shared_files).where(shared_files.c.run_id == _RUN)),
    Command(delete(step_logs).where(step_logs.c.run_id == _RUN)),
    Command(delete(step_log_parts).where(step_log_parts.c.run_id == _RUN)),
    Command(delete(step_transcripts).where(step_transcripts.c.run_id == _RUN)),
    Command(delete(step_transcript_parts).where(step_transcript_parts.c.run_id == _RUN)),
)
_FINISHED = Query(
    ErasableRow,
    select_row(ErasableRow, runs)
    # The condition of the partial index; children go with their parents.
    .where(runs.c.finished_at < bindparam("before"), runs.c.data_purged_at.is_(None), NO_CHILD)
    .order_by(runs.c.finished_at)
    .limit(bindparam("most")),
)
_CHILDREN = Query(
    ErasableRow,
    select_row(ErasableRow, runs).where(runs.c.parent_run_id == _RUN, runs.c.data_purged_at.is_(None)),
)
_ORDER_REMOVAL = Command(insert(pending_removals), ["run_id", "requested_at"])
_ORDER_ANEW = Command(
    update(pending_removals)
    .where(pending_removals.c.run_id == _RUN)
    .values(requested_at=pending_removals.c.requested_at + literal_column("1"))
)
_IS_ERASED = ScalarQuery[str](select(runs.c.run_id).where(runs.c.run_id == _RUN, runs.c.data_purged_at.is_not(None)))
_ORDERED = Query(RemovalRow, select_row(RemovalRow, pending_removals).order_by(pending_removals.c.requested_at))
_REMOVED = Command(
    delete(pending_removals).where(
        pending_removals.c.run_id == _RUN, pending_removals.c.requested_at == bindparam("ordered_at")
    )
)


def clear(tx: Tx, run_id: str, *, warnings: str, pii_redaction: str | None, at: int) -> None:
    """Clears all content of a run, also from the database's files, and requests the removal of its objects."""
    tx.purges_deleted_content = True
    tx.enqueue(_CLEAR, of_run_id=run_id, new_warnings=warnings, new_pii_redaction=pii_redaction, at_ms=at)
    for deletion in _DELETIONS:
        tx.enqueue(deletion, of_run_id=run_id)
    tx.enqueue(_ORDER_REMOVAL, run_id=run_id, requested_at=at)


def finished_before(tx: Tx, before: int, most: int) -> list[ErasableRow]:
    """Returns up to `most` runs that finished before a time and still have their data, the oldest first."""
    return tx.all(_FINISHED, before=before, most=most)


def children(tx: Tx, run_id: str) -> list[ErasableRow]:
    """Returns the children of a run that still have their data."""
    return tx.all(_CHILDREN, of_run_id=run_id)


def request_removal_again(tx: Tx, run_id: str, at: int) -> None:
    """Requests the removal of an erased run's objects once more, as some may have been stored since."""
    if tx.exists(_IS_ERASED, of_run_id=run_id) and not tx.run(_ORDER_ANEW, of_run_id=run_id):
        tx.run(_ORDER_REMOVAL, run_id=run_id, requested_at=at)


def requested_removals(tx: Tx) -> list[RemovalRow]:
    """Returns the runs whose objects are still to be removed, in the order of their erasures."""
    return tx.all(_ORDERED)


def record_removal(tx: Tx, run_id: str, ordered_at: int) -> None:
    """Records that the removal requested at `ordered_at` is done; a later request stays."""
    tx.enqueue(_REMOVED, of_run_id=run_id, ordered_at=ordered_at)
