"""SQL of workflows."""

from sqlalchemy import bindparam, insert, update

from backend.ids import new_id
from backend.storage.database import Tx
from backend.storage.statements import Command, Query, select_row
from backend.storage.tables.workflows import WorkflowRow, workflows
from backend.workflows.deleted_names import former_name
from backend.workflows.revision_sql import touch

_WORKFLOW = select_row(WorkflowRow, workflows)
_ALL = Query(WorkflowRow, _WORKFLOW.where(workflows.c.deleted_at.is_(None)))
_BY_ID = Query(WorkflowRow, _WORKFLOW.where(workflows.c.workflow_id == bindparam("workflow_id")))
_BY_NAME = Query(WorkflowRow, _WORKFLOW.where(workflows.c.name == bindparam("name")))
_ADD_WORKFLOW = Command(insert(workflows), [column.name for column in workflows.columns])
_CHANGE_WORKFLOW = Command(
    update(workflows)
    .where(workflows.c.workflow_id == bindparam("of_workflow_id"))
    .values(
        {
            name: bindparam(f"new_{name}")
            for name in ("description", "status", "active_version", "newest_version", "updated_at")
        }
    )
)


def get(tx: Tx, workflow_id: str) -> WorkflowRow | None:
    """Returns a workflow's row by id; None where there is none or it was deleted."""
    row = tx.first(_BY_ID, workflow_id=workflow_id)
    return None if row is None or row.deleted_at is not None else row


def find(tx: Tx, id_or_name: str) -> WorkflowRow | None:
    """Returns a workflow's row by id, else by name, or None; one that was deleted by its id alone."""
    row = tx.first(_BY_ID, workflow_id=id_or_name) or tx.first(_BY_NAME, name=id_or_name)
    return row if row is None or row.deleted_at is None else row._replace(name=former_name(row.name))


def get_by_name(tx: Tx, name: str) -> WorkflowRow | None:
    """Returns a workflow's row by name, or None."""
    return tx.first(_BY_NAME, name=name)


def all_workflows(tx: Tx) -> list[WorkflowRow]:
    """Returns every workflow by name, then id, in the order of code points; there are at most 256."""
    return sorted(tx.all(_ALL), key=lambda row: (row.name, row.workflow_id))


def add_workflow(tx: Tx, *, name: str, description: str, status: str, now: int) -> str:
    """Writes a new workflow without its version 1, and returns its id."""
    workflow_id = new_id("wf")
    tx.enqueue(
        _ADD_WORKFLOW,
        workflow_id=workflow_id,
        name=name,
        name_folded=name.casefold(),
        description=description,
        status=status,
        active_version=1 if status == "active" else None,
        newest_version=1,
        created_at=now,
        updated_at=now,
        deleted_at=None,
    )
    touch(tx)
    return workflow_id


def change_workflow(
    tx: Tx,
    row: WorkflowRow,
    now: int,
    *,
    status: str,
    newest_version: int | None = None,
    description: str | None = None,
) -> None:
    """Writes a workflow's status, its newest version, which is the active one, and description; None leaves them.

    A workflow that was never active has no active version yet.
    """
    newest = row.newest_version if newest_version is None else newest_version
    tx.enqueue(
        _CHANGE_WORKFLOW,
        of_workflow_id=row.workflow_id,
        new_description=row.description if description is None else description,
        new_status=status,
        new_active_version=newest if status == "active" or row.active_version is not None else None,
        new_newest_version=newest,
        new_updated_at=now,
    )
    touch(tx)
