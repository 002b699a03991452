"""SQL of a resume: the steps of an ended run with their files and children, and its key."""

from typing import NamedTuple

from sqlalchemy import bindparam, func, select

from backend.common.states import RunStatus
from backend.storage.database import Tx
from backend.storage.statements import Query, select_row
from backend.storage.tables.files import outputs, shared_files
from backend.storage.tables.keys import api_keys
from backend.storage.tables.runs import runs, status_in
from backend.storage.tables.segments import steps


class ReusableStepRow(NamedTuple):
    """A step of an ended run, with the number of its files that are still stored."""

    step: str
    kind: str
    status: str
    files_count: int | None
    reused_from: str | None
    outputs_stored: int
    shared_stored: int


class ChildVersionRow(NamedTuple):
    """The workflow version that completed children of a step have run."""

    parent_step: str
    workflow_id: str
    version: int


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
_CHILD_VERSIONS = Query(
    ChildVersionRow,
    select_row(ChildVersionRow, runs)
    .where(runs.c.parent_run_id == bindparam("of_run_id"), status_in(RunStatus.COMPLETED))
    .distinct(),
)
_KEY = Query(KeyValidityRow, select_row(KeyValidityRow, api_keys).where(api_keys.c.key_id == bindparam("of_key_id")))


def steps_of(tx: Tx, run_id: str) -> list[ReusableStepRow]:
    """Returns the steps of a run in the order of its definition."""
    return tx.all(_STEPS, of_run_id=run_id)


def child_versions(tx: Tx, run_id: str) -> list[ChildVersionRow]:
    """Returns the workflow versions that the completed children of a run have run, each once for each step."""
    return tx.all(_CHILD_VERSIONS, of_run_id=run_id)


def key(tx: Tx, key_id: str) -> KeyValidityRow | None:
    """Returns a key, or None where it was deleted."""
    return tx.first(_KEY, of_key_id=key_id)
