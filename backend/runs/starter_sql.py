"""SQL of who started a run: the name of the key, or the person that the audit trail names."""

from typing import Final

from sqlalchemy import ColumnElement, bindparam, func, literal_column, select

from backend.storage.database import Tx
from backend.storage.statements import ScalarQuery
from backend.storage.tables.audit import audit_records
from backend.storage.tables.keys import api_keys
from backend.storage.tables.runs import runs

# Subqueries, not joins: each is one search of an index for each run that is shown.
STARTED_BY: Final[ColumnElement[str | None]] = func.coalesce(
    select(api_keys.c.name).where(api_keys.c.key_id == runs.c.key_id).correlate(runs).scalar_subquery(),
    select(audit_records.c.actor)
    .where(audit_records.c.target == runs.c.run_id, audit_records.c.action == literal_column("'run.started'"))
    .limit(literal_column("1"))
    .correlate(runs)
    .scalar_subquery(),
)
"""Null once the key was deleted, or the audit record has expired."""

_OF_RUN: Final[ScalarQuery[str | None]] = ScalarQuery(
    select(STARTED_BY.label("started_by")).select_from(runs).where(runs.c.run_id == bindparam("of_run_id"))
)


def started_by(tx: Tx, run_id: str) -> str | None:
    """Returns who started a run that exists, or None where that is not known any more."""
    return tx.scalar(_OF_RUN, of_run_id=run_id)
