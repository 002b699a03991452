"""SQL of workflows and sets, of the revision that invalidates caches, of lists of environments and publications."""

import secrets
from typing import Final, NamedTuple

from sqlalchemy import Text, and_, bindparam, insert, literal_column, select, update

from backend.common.ids import new_id
from backend.storage.database import Tx
from backend.storage.sql_expressions import json_member
from backend.storage.statements import Command, Query, ScalarQuery, select_row
from backend.storage.tables.files import publications
from backend.storage.tables.workflows import (
    WorkflowRow,
    resource_revision,
    resource_versions,
    resources,
    workflow_version_resources,
    workflows,
)

DELETED: Final = "deleted_"
"""Prefix of the kind of a deleted resource."""


def deleted_name(name: str, definition_id: str) -> str:
    """Returns the stored name of a deleted definition, which frees its name."""
    return f"{name}\n{definition_id}"


def former_name(name: str) -> str:
    """Returns the former name from the stored name of a deleted definition."""
    return name.partition("\n")[0]


_REVISION = ScalarQuery[int](select(resource_revision.c.revision))
_FIRST_REVISION = Command(insert(resource_revision), ["only", "revision"])
_NEXT_REVISION = Command(
    update(resource_revision).values(revision=resource_revision.c.revision + bindparam("step", required=True))
)


def revision(tx: Tx) -> int:
    """Returns the revision, which every change of a workflow or resource raises."""
    return tx.scalar(_REVISION) or 0


def touch(tx: Tx) -> None:
    """Raises the revision by a random step, so that a rolled-back revision is not reused for other content."""
    step = 1 + secrets.randbits(20)
    if not tx.run(_NEXT_REVISION, step=step):
        tx.enqueue(_FIRST_REVISION, only=1, revision=step)


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
    """Returns a workflow's row by id; None if it does not exist or was deleted."""
    row = tx.first(_BY_ID, workflow_id=workflow_id)
    return None if row is None or row.deleted_at is not None else row


def find(tx: Tx, id_or_name: str) -> WorkflowRow | None:
    """Returns a workflow's row by id, else by name, or None; a deleted one only by id."""
    row = tx.first(_BY_ID, workflow_id=id_or_name) or tx.first(_BY_NAME, name=id_or_name)
    return row if row is None or row.deleted_at is None else row._replace(name=former_name(row.name))


def get_by_name(tx: Tx, name: str) -> WorkflowRow | None:
    """Returns a workflow's row by name, or None."""
    return tx.first(_BY_NAME, name=name)


def all_workflows(tx: Tx) -> list[WorkflowRow]:
    """Returns every workflow by name, then id, in the order of code points; there are at most 256."""
    return sorted(tx.all(_ALL), key=lambda row: (row.name, row.workflow_id))


def add_workflow(tx: Tx, *, name: str, description: str, status: str, now: int) -> str:
    """Writes the row of a new workflow, and returns its id; the caller writes version 1."""
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
        owner_set=None,
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
    """Writes a workflow's status, newest version and description; None leaves a value unchanged.

    The newest version becomes the active one, unless the workflow was never active.
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


class EnvironmentRow(NamedTuple):
    """An environment at its newest version."""

    resource_id: str
    name: str
    version: int
    definition: str


_ENVIRONMENTS = Query(
    EnvironmentRow,
    select_row(EnvironmentRow, resources)
    .where(resources.c.kind == literal_column("'environment'"), resources.c.name > bindparam("after"))
    .order_by(resources.c.name)
    .limit(bindparam("limit")),
)


_KEPT_LOCKS = ScalarQuery[str | None](
    select(json_member(resource_versions.c.definition, "python", "lock").label("digest"))
    .select_from(workflow_version_resources)
    .join(
        resource_versions,
        and_(
            resource_versions.c.resource_id == workflow_version_resources.c.resource_id,
            resource_versions.c.version == workflow_version_resources.c.resource_version,
        ),
    )
    .where(workflow_version_resources.c.kind == literal_column("'environment'"))
    .distinct()
)


def locks_in_use(tx: Tx) -> set[str]:
    """Returns the digests of package locks that workflow versions use."""
    return {digest for digest in tx.scalars(_KEPT_LOCKS) if digest is not None}


def environments(tx: Tx, *, after: str, limit: int) -> list[EnvironmentRow]:
    """Returns a page of environments, by name after `after`."""
    return tx.all(_ENVIRONMENTS, after=after, limit=limit)


class ListedPublicationRow(NamedTuple):
    """A publication of a run to a knowledge graph."""

    run_id: str
    state: str
    requested_at: int


_NEWEST = Query(
    ListedPublicationRow,
    select_row(ListedPublicationRow, publications)
    .where(publications.c.graph_id == bindparam("graph_id"))
    .order_by(publications.c.requested_at.desc())
    .limit(literal_column("20")),
)


def newest_publications(tx: Tx, graph_id: str) -> list[ListedPublicationRow]:
    """Returns the 20 most recently requested publications to a knowledge graph, the newest first."""
    return tx.all(_NEWEST, graph_id=graph_id)


class OwnedRow(NamedTuple):
    """A workflow or a resource, by its kind in the table, with the set that owns it."""

    definition_id: str
    kind: str
    name: str
    version: int
    owner_set: str


WORKFLOW: Final = "workflow"
_OWNED_WORKFLOWS = Query(
    OwnedRow,
    select(
        workflows.c.workflow_id.label("definition_id"),
        literal_column(f"'{WORKFLOW}'").label("kind"),
        workflows.c.name,
        workflows.c.newest_version.label("version"),
        workflows.c.owner_set,
    ).where(workflows.c.owner_set.is_not(None), workflows.c.deleted_at.is_(None)),
)
# In a rolling upgrade, a backend of the previous release leaves the owner of definitions that it deletes.
_OWNED_RESOURCES = Query(
    OwnedRow,
    select(
        resources.c.resource_id.label("definition_id"),
        resources.c.kind,
        resources.c.name,
        resources.c.version,
        resources.c.owner_set,
    ).where(resources.c.owner_set.is_not(None), ~resources.c.kind.like(literal_column(f"'{DELETED}%'"))),
)
_NEW_OWNER: Final = bindparam("new_owner", type_=Text)
_OWN_WORKFLOW = Command(
    update(workflows).where(workflows.c.workflow_id == bindparam("of")).values(owner_set=_NEW_OWNER)
)
_OWN_RESOURCE = Command(
    update(resources).where(resources.c.resource_id == bindparam("of")).values(owner_set=_NEW_OWNER)
)


def owned_by_sets(tx: Tx) -> list[OwnedRow]:
    """Returns every definition that a set owns; there are at most 256 of each kind."""
    return [*tx.all(_OWNED_WORKFLOWS), *tx.all(_OWNED_RESOURCES)]


def change_owner(tx: Tx, kind: str, definition_id: str, owner_set: str | None) -> None:
    """Writes the set that owns a definition of a kind in the tables; None for no set."""
    tx.enqueue(_OWN_WORKFLOW if kind == WORKFLOW else _OWN_RESOURCE, of=definition_id, new_owner=owner_set)
    touch(tx)
