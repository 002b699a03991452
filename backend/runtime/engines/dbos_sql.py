"""SQL of what DBOS keeps of segments that have ended, which it never removes by itself."""

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

from backend.storage.database import Tx
from backend.storage.statements import Command, ScalarQuery
from backend.storage.tables.segments import segments

# Not of our schema: only what is needed of it.
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
            segments.c.segment_id == _WORKFLOWS.c.workflow_uuid, segments.c.state != literal_column("'ended'")
        ),
    )
    .limit(bindparam("most"))
)
_IS_THERE = ScalarQuery[bool](
    select(func.to_regclass(literal_column("'dbos.workflow_status'")).is_not(None).label("yes"))
)
_PURGE = Command(delete(_WORKFLOWS).where(_WORKFLOWS.c.workflow_uuid.in_(_ENDED)))


def is_there(tx: Tx) -> bool:
    """Whether DBOS has made its tables, as the first worker has it do."""
    return tx.scalar_one(_IS_THERE)


def purge(tx: Tx, before: int, most: int) -> int:
    """Removes what was changed last before that time and whose segments have ended; gives how many."""
    return tx.run(_PURGE, before=before, most=most)
