"""SQL of changes that need a run which has not ended: its lock, and the end of a segment that such a change left."""

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
    """Keeps a run from ending until the commit and returns its status; None where it has ended, or does not exist.

    The lock key of a run is not enough: a transaction that ends its parent, under the parent's key, changes it as well.
    """
    return tx.scalar(_LOCK, of_run_id=run_id)


def end_left_segment(tx: Tx, segment_id: str) -> None:
    """Ends a queued segment whose run has ended."""
    tx.enqueue(_END_LEFT, of_segment_id=segment_id)
