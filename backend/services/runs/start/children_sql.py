"""SQL of the start of a child run: reads the parent's columns that it inherits, and counts its siblings."""

from typing import NamedTuple

from sqlalchemy import bindparam, func, select

from backend.storage.database import Tx
from backend.storage.statements import Query, ScalarQuery, select_row
from backend.storage.tables.runs import runs


class ParentRow(NamedTuple):
    """A parent run: columns that its children inherit, and the number of its children."""

    key_id: str
    triggered_by: str
    client_reference: str | None
    labels: str
    depth: int
    children: int


_CHILD = runs.alias("child")
_NUMBER = (
    select(func.count()).select_from(_CHILD).where(_CHILD.c.parent_run_id == bindparam("of_run_id")).scalar_subquery()
)
_PARENT = Query(ParentRow, select_row(ParentRow, runs, children=_NUMBER).where(runs.c.run_id == bindparam("of_run_id")))
_EXISTS = ScalarQuery[str](select(runs.c.run_id).where(runs.c.run_id == bindparam("of_run_id")))


def parent(tx: Tx, run_id: str) -> ParentRow:
    """Returns a parent run, which must exist, with the number of its children."""
    return tx.one(_PARENT, of_run_id=run_id)


def exists(tx: Tx, run_id: str) -> bool:
    """Returns whether a run exists."""
    return tx.exists(_EXISTS, of_run_id=run_id)
