"""SQL that promotes the outputs of a run, and removes its shared files at its end."""

from sqlalchemy import BindParameter, Text, bindparam, exists, func, insert, literal_column, select, update

from backend.storage.database import Tx
from backend.storage.object_keys import unnamed_outputs_key
from backend.storage.statements import Command, Query, ScalarQuery, select_row
from backend.storage.tables.files import OutputRow, outputs, pending_deletions, shared_files
from backend.storage.tables.runs import runs

_RUN: BindParameter[str] = bindparam("of_run_id")

OUTPUTS_COUNT = select(func.count()).where(outputs.c.run_id == _RUN).scalar_subquery()
"""A query for the number of outputs of the run `of_run_id`."""

_OUTPUTS = Query(OutputRow, select_row(OutputRow, outputs).where(outputs.c.run_id == _RUN).order_by(outputs.c.path))
# Only for a run that is not closed, because the close counts all outputs.
_PROMOTED = ScalarQuery[str](
    select(runs.c.run_id).where(runs.c.run_id == _RUN, runs.c.outputs_count > literal_column("0"))
)
_COUNT_OUTPUTS = Command(update(runs).where(runs.c.run_id == _RUN).values(outputs_count=OUTPUTS_COUNT))
_STAMP_OUTPUTS = Command(update(outputs).where(outputs.c.run_id == _RUN).values(created_at=bindparam("at_ms")))
_ORDER_REMOVAL = Command(
    insert(pending_deletions).from_select(
        ["object_key"], select(bindparam("key", type_=Text)).where(exists().where(shared_files.c.run_id == _RUN))
    )
)


def outputs_of(tx: Tx, run_id: str) -> list[OutputRow]:
    """Returns the outputs of the run's completed steps, by path."""
    return tx.all(_OUTPUTS, of_run_id=run_id)


def has_promoted(tx: Tx, run_id: str) -> bool:
    """Returns whether outputs of a run that is not closed were promoted."""
    return tx.exists(_PROMOTED, of_run_id=run_id)


def count_outputs(tx: Tx, run_id: str) -> None:
    """Sets the run's number of promoted outputs to the number of its outputs."""
    tx.announce(run_id)
    tx.enqueue(_COUNT_OUTPUTS, of_run_id=run_id)


def stamp_outputs(tx: Tx, run_id: str, at: int) -> None:
    """Sets the promotion time of the run's outputs."""
    tx.enqueue(_STAMP_OUTPUTS, of_run_id=run_id, at_ms=at)


def order_removal_of_shared_files(tx: Tx, run_id: str) -> None:
    """Requests the removal of the shared files of an ending run, if it has any."""
    tx.enqueue(_ORDER_REMOVAL, of_run_id=run_id, key=unnamed_outputs_key(run_id, "shared"))
