"""SQL that removes what DBOS keeps of ended segments, which it never removes by itself."""

from typing import Final

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
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

# Tables of DBOS, with the columns that are needed here.
_DBOS: Final = MetaData(schema="dbos")
_WORKFLOWS: Final = Table(
    "workflow_status",
    _DBOS,
    Column("workflow_uuid", Text, primary_key=True),
    Column("updated_at", BigInteger),
)
# Without a foreign key to their workflow.
_PARTS: Final = tuple(
    Table(name, _DBOS, Column("workflow_uuid", Text, primary_key=True), Column("retention_timestamp", BigInteger))
    for name in ("workflow_input", "workflow_output")
)
_ONE: Final[ColumnElement[int]] = literal_column("1")
_ENDED: Final = (
    select(_WORKFLOWS.c.workflow_uuid)
    .where(
        _WORKFLOWS.c.updated_at < bindparam("before"),
        ~exists().where(
            # Without the number of the hand-over.
            segments.c.segment_id == func.split_part(_WORKFLOWS.c.workflow_uuid, literal_column("':'"), _ONE),
            segments.c.state != literal_column(f"'{SegmentState.ENDED}'"),
        ),
    )
    .limit(bindparam("most"))
)
_HAS_TABLES = ScalarQuery[bool](
    select(func.to_regclass(literal_column("'dbos.workflow_output'")).is_not(None).label("yes"))
)
_PURGE = Command(delete(_WORKFLOWS).where(_WORKFLOWS.c.workflow_uuid.in_(_ENDED)))
_PURGE_PARTS: Final = tuple(
    Command(
        delete(part).where(
            part.c.workflow_uuid.in_(
                select(part.c.workflow_uuid)
                .where(
                    part.c.retention_timestamp < bindparam("before"),
                    ~exists().where(_WORKFLOWS.c.workflow_uuid == part.c.workflow_uuid),
                )
                .limit(bindparam("most"))
            )
        )
    )
    for part in _PARTS
)


def has_tables(tx: Tx) -> bool:
    """Returns whether DBOS has made its tables, which it does for the first worker."""
    return tx.scalar_one(_HAS_TABLES)


def purge(tx: Tx, before: int, most: int) -> int:
    """Removes entries that last changed before that time and whose segments have ended; returns how many.

    Their inputs and outputs go with them, as do those that earlier purges have left.
    """
    return sum(tx.run(command, before=before, most=most) for command in (_PURGE, *_PURGE_PARTS))
