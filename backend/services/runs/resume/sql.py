"""SQL of a resume: the steps of an ended run with their files, and its key."""

from typing import NamedTuple

from sqlalchemy import bindparam, func, select

from backend.storage.database import Tx
from backend.storage.statements import Query, select_row
from backend.storage.tables.files import outputs, shared_files
from backend.storage.tables.keys import api_keys
from backend.storage.tables.segments import steps


class ReusableStepRow(NamedTuple):
    """A step of an ended run, with the number of its files that are still stored."""

    step: str
    status: str
    files_count: int | None
    outputs_stored: int
    shared_stored: int


class KeyValidityRow(NamedTuple):
    """Key of a run, with what decides whether it may start another."""

    name: str
    expires_at: int
    revoked_at: int | None


_STEPS = Query(
    ReusableStepRow,
    select_row(
        ReusableStepRow,
        steps,
        outputs_stored=select(func.count())
        .where(outputs.c.run_id == steps.c.run_id, outputs.c.step == steps.c.step)
        .scalar_subquery(),
        shared_stored=select(func.count())
        .where(shared_files.c.run_id == steps.c.run_id, shared_files.c.step == steps.c.step)
        .scalar_subquery(),
    )
    .where(steps.c.run_id == bindparam("of_run_id"))
    .order_by(steps.c.position),
)
_KEY = Query(KeyValidityRow, select_row(KeyValidityRow, api_keys).where(api_keys.c.key_id == bindparam("of_key_id")))


def steps_of(tx: Tx, run_id: str) -> list[ReusableStepRow]:
    """Returns the steps of a run in the order of its definition."""
    return tx.all(_STEPS, of_run_id=run_id)


def key(tx: Tx, key_id: str) -> KeyValidityRow | None:
    """Returns a key, or None where it was deleted."""
    return tx.first(_KEY, of_key_id=key_id)
