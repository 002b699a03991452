"""SQL of what a person may do, and of which workflow a run or an approval is."""

from typing import Final

from sqlalchemy import bindparam, select

from backend.storage.database import Tx
from backend.storage.statements import ScalarQuery
from backend.storage.tables.runs import runs
from backend.storage.tables.segments import approvals
from backend.storage.tables.workflows import workflows

_OF_RUN: Final[ScalarQuery[str]] = ScalarQuery(
    select(runs.c.workflow_id).where(runs.c.run_id == bindparam("of_run_id"))
)
_OF_APPROVAL: Final[ScalarQuery[str]] = ScalarQuery(
    select(runs.c.workflow_id)
    .select_from(approvals)
    .join(runs, runs.c.run_id == approvals.c.run_id)
    .where(approvals.c.approval_id == bindparam("of_approval_id"))
)
_KNOWN: Final[ScalarQuery[str]] = ScalarQuery(
    select(workflows.c.workflow_id).where(
        workflows.c.workflow_id == bindparam("of_workflow_id"), workflows.c.deleted_at.is_(None)
    )
)


def workflow_of_run(tx: Tx, run_id: str) -> str | None:
    """Returns the workflow of a run; None where there is no such run."""
    return tx.scalar(_OF_RUN, of_run_id=run_id)


def workflow_of_approval(tx: Tx, approval_id: str) -> str | None:
    """Returns the workflow of an approval's run; None where there is no such approval."""
    return tx.scalar(_OF_APPROVAL, of_approval_id=approval_id)


def is_workflow(tx: Tx, workflow_id: str) -> bool:
    """Returns whether there is a workflow with this id that was not deleted."""
    return tx.scalar(_KNOWN, of_workflow_id=workflow_id) is not None
