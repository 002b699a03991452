"""SQL that removes what DBOS keeps of ended segments, which it never removes by itself."""

from typing import Final

from sqlalchemy import (
    BigInteger,
    Column,
    MetaData,
    Table,
    Text,
    bindparam,
    delete,
    exists,
    func,
    literal_column,
    select,
)

from backend.segment_state import SegmentState
from backend.storage.database import Tx
from backend.storage.statements import Command, ScalarQuery
from backend.storage.tables.segments import segments

# A table of DBOS, with the columns that are needed here.
_WORKFLOWS: Final = Table(
    "workflow_status",
    MetaData(schema="dbos"),
    Column("workflow_uuid", Text, primary_key=True),
    Column("updated_at", BigInteger),
)
_ENDED: Final = (
    select(_WORKFLOWS.c.workflow_uuid)
    .where(
        _WORKFLOWS.c.updated_at < bindparam("before"),
        ~exists().where(
            segments.c.segment_id == _WORKFLOWS.c.workflow_uuid,
            segments.c.state != literal_column(f"'{SegmentState.ENDED}'"),
        ),
    )
    .limit(bindparam("most"))
)
_IS_THERE = ScalarQuery[bool](
    select(func.to_regclass(literal_column("'dbos.workflow_status'")).is_not(None).label("yes"))
)
_PURGE = Command(delete(_WORKFLOWS).where(_WORKFLOWS.c.workflow_uuid.in_(_ENDED)))


def is_there(tx: Tx) -> bool:
    """Returns whether DBOS has made its tables, which it does for the first worker."""
    return tx.scalar_one(_IS_THERE)


def purge(tx: Tx, before: int, most: int) -> int:
    """Removes entries that last changed before that time and whose segments have ended; returns how many."""
    return tx.run(_PURGE, before=before, most=most)
