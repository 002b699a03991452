"""SQL of workflows, the resources of their steps, and connection tests."""

import json
import secrets
from collections.abc import Iterable
from typing import Final, NamedTuple

from sqlalchemy import ScalarSelect, bindparam, func, insert, literal_column, select, update

from backend.ids import new_id
from backend.storage.database import Tx
from backend.storage.statements import Command, Query, ScalarQuery, select_row
from backend.storage.tables.publishing import publications
from backend.storage.tables.workflows import (
    WorkflowRow,
    connector_tests,
    resource_revision,
    resource_versions,
    resources,
    workflows,
)
from backend.workflows.readiness import Resource, ResourceKey

_ID_PREFIXES: Final = {"environment": "env", "connector": "con", "agent": "agt", "knowledge_graph": "kg"}


class ResourceRow(NamedTuple):
    """A resource at its newest version; of a connector, whether tests of that version or of any have passed."""

    resource_id: str
    kind: str
    name: str
    version: int
    definition: str
    created_at: int
    updated_at: int
    newest_passed: int | None
    ever_passed: int | None


class KnowledgeGraphRow(NamedTuple):
    """A knowledge graph at its newest version, with how many runs it holds and how many are to be added or removed."""

    resource_id: str
    kind: str
    name: str
    version: int
    definition: str
    created_at: int
    updated_at: int
    runs: int
    pending: int


class CountRow(NamedTuple):
    """How many resources of a kind there are."""

    kind: str
    resources: int


_REVISION = ScalarQuery[int](select(resource_revision.c.revision))
_FIRST_REVISION = Command(insert(resource_revision), ["only", "revision"])
_NEXT_REVISION = Command(
    update(resource_revision).values(revision=resource_revision.c.revision + bindparam("step", required=True))
)

_WORKFLOW = select_row(WorkflowRow, workflows)
_ALL = Query(WorkflowRow, _WORKFLOW)
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


def _publications(*states: str) -> ScalarSelect[int]:
    """Returns a query for the number of a knowledge graph's publications in any of the states."""
    return (
        select(func.count())
        .where(
            publications.c.graph_id == resources.c.resource_id,
            publications.c.state.in_([literal_column(f"'{state}'") for state in states]),
        )
        .scalar_subquery()
    )


_TEST_OF_VERSION = (
    select(connector_tests.c.passed)
    .where(
        connector_tests.c.connector_id == resources.c.resource_id,
        connector_tests.c.version == resources.c.version,
    )
    .scalar_subquery()
)
_BEST_TEST = (
    select(func.max(connector_tests.c.passed))
    .where(connector_tests.c.connector_id == resources.c.resource_id)
    .scalar_subquery()
)
_RESOURCE = Query(
    ResourceRow,
    select_row(ResourceRow, resources, newest_passed=_TEST_OF_VERSION, ever_passed=_BEST_TEST).where(
        resources.c.kind == bindparam("kind"), resources.c.name == bindparam("name")
    ),
)
_COUNTS = Query(CountRow, select(resources.c.kind, func.count().label("resources")).group_by(resources.c.kind))
_ADD_RESOURCE = Command(insert(resources), [column.name for column in resources.columns])
_ADD_RESOURCE_VERSION = Command(insert(resource_versions), [column.name for column in resource_versions.columns])
_CHANGE_RESOURCE = Command(
    update(resources)
    .where(resources.c.resource_id == bindparam("of_resource_id"))
    .values({name: bindparam(f"new_{name}") for name in ("version", "definition", "updated_at")})
)
_CHANGE_TEST = Command(
    update(connector_tests)
    .where(
        connector_tests.c.connector_id == bindparam("of_connector_id"),
        connector_tests.c.version == bindparam("of_version"),
    )
    .values({name: bindparam(f"new_{name}") for name in ("passed", "message", "tested_at")})
)
_ADD_TEST = Command(insert(connector_tests), [column.name for column in connector_tests.columns])

_KNOWLEDGE_GRAPHS = Query(
    KnowledgeGraphRow,
    select_row(
        KnowledgeGraphRow,
        resources,
        runs=_publications("landed", "kept"),
        pending=_publications("pending", "removing"),
    )
    .where(resources.c.kind == literal_column("'knowledge_graph'"))
    .order_by(resources.c.name),
)


def get(tx: Tx, workflow_id: str) -> WorkflowRow | None:
    """Returns a workflow's row by id, or None."""
    return tx.first(_BY_ID, workflow_id=workflow_id)


def find(tx: Tx, id_or_name: str) -> WorkflowRow | None:
    """Returns a workflow's row by id, else by name, or None."""
    return tx.first(_BY_ID, workflow_id=id_or_name) or tx.first(_BY_NAME, name=id_or_name)


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
    )
    _touch(tx)
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
    _touch(tx)


def resource(tx: Tx, kind: str, name: str) -> ResourceRow | None:
    """Returns a resource with the results of its connection tests, or None."""
    return tx.first(_RESOURCE, kind=kind, name=name)


def knowledge_graphs(tx: Tx) -> list[KnowledgeGraphRow]:
    """Returns every knowledge graph by name."""
    return tx.all(_KNOWLEDGE_GRAPHS)


def resource_counts(tx: Tx) -> dict[str, int]:
    """Returns how many resources of each kind there are."""
    return {row.kind: row.resources for row in tx.all(_COUNTS)}


def add_resource(tx: Tx, *, kind: str, name: str, definition: str, now: int) -> str:
    """Writes a new resource with its version 1 and returns its id."""
    resource_id = new_id(_ID_PREFIXES[kind])
    tx.enqueue(
        _ADD_RESOURCE,
        resource_id=resource_id,
        kind=kind,
        name=name,
        version=1,
        definition=definition,
        created_at=now,
        updated_at=now,
    )
    tx.enqueue(_ADD_RESOURCE_VERSION, resource_id=resource_id, version=1, definition=definition, created_at=now)
    _touch(tx)
    return resource_id


def change_resource(tx: Tx, row: ResourceRow, definition: str, now: int) -> None:
    """Writes the next version of a resource."""
    version = row.version + 1
    tx.enqueue(
        _CHANGE_RESOURCE,
        of_resource_id=row.resource_id,
        new_version=version,
        new_definition=definition,
        new_updated_at=now,
    )
    tx.enqueue(
        _ADD_RESOURCE_VERSION, resource_id=row.resource_id, version=version, definition=definition, created_at=now
    )
    _touch(tx)


def record_test(tx: Tx, *, connector_id: str, version: int, passed: bool, message: str, now: int) -> None:
    """Writes the result of a connection test as the last one of that version."""
    changed = tx.run(
        _CHANGE_TEST,
        of_connector_id=connector_id,
        of_version=version,
        new_passed=int(passed),
        new_message=message,
        new_tested_at=now,
    )
    if not changed:
        tx.enqueue(
            _ADD_TEST,
            connector_id=connector_id,
            version=version,
            passed=int(passed),
            message=message,
            tested_at=now,
        )
    _touch(tx)


def resources_of(tx: Tx, keys: Iterable[ResourceKey]) -> dict[ResourceKey, Resource]:
    """Returns those of the named resources that exist, at their newest version."""
    found: dict[ResourceKey, Resource] = {}
    for kind, name in keys:
        row = resource(tx, kind, name)
        if row is not None:
            found[kind, name] = Resource(
                resource_id=row.resource_id,
                version=row.version,
                definition=json.loads(row.definition),
                newest_passed=None if row.newest_passed is None else bool(row.newest_passed),
                ever_passed=bool(row.ever_passed),
                size=len(row.definition),
            )
    return found


def revision(tx: Tx) -> int:
    """Returns a number that every change of a workflow or a resource changes."""
    return tx.scalar(_REVISION) or 0


def _touch(tx: Tx) -> None:
    """Raises the revision by a random number, so that one that was rolled back is not used again for other content."""
    step = 1 + secrets.randbits(20)
    if not tx.run(_NEXT_REVISION, step=step):
        tx.enqueue(_FIRST_REVISION, only=1, revision=step)
