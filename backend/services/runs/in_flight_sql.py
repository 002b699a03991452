"""SQL that locks a run in flight, and ends a queued segment whose run has ended."""

from typing import Final

from sqlalchemy import bindparam, exists, literal_column, select, update

from backend.common.states import RUN_IN_FLIGHT, RUN_TERMINAL, SegmentState
from backend.storage.database import Tx
from backend.storage.statements import Command, ScalarQuery
from backend.storage.tables.runs import runs, status_in
from backend.storage.tables.segments import segments

_LOCK: Final = ScalarQuery[str](
    select(runs.c.status).where(runs.c.run_id == bindparam("of_run_id"), status_in(*RUN_IN_FLIGHT)).with_for_update()
)
_END_LEFT: Final = Command(
    update(segments)
    .where(
        segments.c.segment_id == bindparam("of_segment_id"),
        segments.c.state == literal_column(f"'{SegmentState.QUEUED}'"),
        exists().where(runs.c.run_id == segments.c.run_id, status_in(*RUN_TERMINAL)),
    )
    .values(state=SegmentState.ENDED)
)


def lock(tx: Tx, run_id: str) -> str | None:
    """Locks the row of a run in flight until the commit, and returns its status; None if the run is not in flight.

    The run's lock key does not suffice: a transaction under the lock key of the parent changes children too.
    """
    return tx.scalar(_LOCK, of_run_id=run_id)


def end_left_segment(tx: Tx, segment_id: str) -> None:
    """Ends a queued segment whose run has ended."""
    tx.enqueue(_END_LEFT, of_segment_id=segment_id)
