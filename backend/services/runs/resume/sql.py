"""SQL of a resume: reads an ended run's steps with their stored files and child runs, and its API key."""

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
    """A step of an ended run, with the numbers of its stored outputs and shared files."""

    step: str
    kind: str
    status: str
    files_count: int | None
    reused_from: str | None
    outputs_stored: int
    shared_stored: int


class ChildVersionRow(NamedTuple):
    """A workflow version that completed child runs of a step have executed."""

    parent_step: str
    workflow_id: str
    version: int


class KeyValidityRow(NamedTuple):
    """Name and validity of a run's API key."""

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
    """Returns the workflow versions of the completed child runs of a run, distinct by step."""
    return tx.all(_CHILD_VERSIONS, of_run_id=run_id)


def key(tx: Tx, key_id: str) -> KeyValidityRow | None:
    """Returns an API key, or None if it was deleted."""
    return tx.first(_KEY, of_key_id=key_id)
