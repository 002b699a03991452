"""SQL of deletions of definitions: finds their users, marks them as deleted, and removes unnamed deleted ones."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from sqlalchemy import Select, Text, bindparam, delete, exists, func, literal_column, null, select, update

from backend.common.states import RUN_IN_FLIGHT
from backend.services.workflows.sql import DELETED, deleted_name, touch
from backend.storage.database import Tx
from backend.storage.sql_expressions import containing
from backend.storage.statements import Command, Query, ScalarQuery
from backend.storage.tables.files import OPEN_STATES, publications, state_in
from backend.storage.tables.keys import api_keys
from backend.storage.tables.runs import runs, status_in
from backend.storage.tables.users import users
from backend.storage.tables.workflows import resources, workflow_version_resources, workflows


class ListingKeyRow(NamedTuple):
    """Id and name of an API key whose list names a workflow."""

    key_id: str
    name: str


class VersionInFlightRow(NamedTuple):
    """A workflow version with its number of runs in flight."""

    workflow_id: str
    version: int
    runs: int


_PATTERN: Final = bindparam("pattern", type_=Text)
_IN_FLIGHT: Final = status_in(*RUN_IN_FLIGHT)
# For the partial index over open publications.
_BY_OPEN: Final = "INDEXED BY ix_publications_open"
_KEYS = Query(
    ListingKeyRow,
    select(api_keys.c.key_id, api_keys.c.name)
    .where(
        api_keys.c.access_mode == literal_column("'explicit'"),
        api_keys.c.revoked_at.is_(None),
        api_keys.c.access_workflow_ids.like(_PATTERN, escape="\\"),
    )
    .order_by(api_keys.c.name, api_keys.c.key_id),
)
_PEOPLE = ScalarQuery[str](
    select(users.c.name).where(users.c.workflow_ids.like(_PATTERN, escape="\\")).order_by(users.c.name)
)
_OF_WORKFLOW: Final = (runs.c.workflow_id == bindparam("of"), _IN_FLIGHT)
_OF_PIN: Final = (
    _IN_FLIGHT,
    exists().where(
        workflow_version_resources.c.workflow_id == runs.c.workflow_id,
        workflow_version_resources.c.version == runs.c.version,
        workflow_version_resources.c.resource_id == bindparam("of"),
    ),
)


class _RunsQuery:
    """Query of the first runs, by id, that meet a condition on `of`, and of their number."""

    def __init__(self, met: Select[tuple[str]]) -> None:
        self._first = ScalarQuery[str](met.order_by(met.selected_columns.run_id).limit(bindparam("most")))
        self._count = ScalarQuery[int](select(func.count()).select_from(met.subquery()))

    def find(self, tx: Tx, of: str, most: int) -> tuple[list[str], int]:
        """Returns up to `most` runs, and the number of all."""
        found = tx.scalars(self._first, of=of, most=most + 1)
        if len(found) <= most:
            return found, len(found)
        return found[:most], tx.scalars(self._count, of=of)[0]


_RUNS_OF_WORKFLOW: Final = _RunsQuery(select(runs.c.run_id).where(*_OF_WORKFLOW))
_RUNS_OF_PIN: Final = _RunsQuery(select(runs.c.run_id).where(*_OF_PIN))
_VERSIONS_IN_FLIGHT = Query(
    VersionInFlightRow,
    select(runs.c.workflow_id, runs.c.version, func.count().label("runs"))
    .where(_IN_FLIGHT)
    .group_by(runs.c.workflow_id, runs.c.version),
)
_RUNS_OF_VERSION = ScalarQuery[str](
    select(runs.c.run_id).where(*_OF_WORKFLOW, runs.c.version == bindparam("of_version")).limit(bindparam("most"))
)
_PUBLISHING: Final = _RunsQuery(
    select(publications.c.run_id)
    .where(
        state_in(*OPEN_STATES),
        state_in("pending", "landed"),
        publications.c.graph_id == bindparam("of"),
    )
    .with_hint(publications, _BY_OPEN, "sqlite")
)
_DELETE_WORKFLOW = Command(
    update(workflows)
    .where(workflows.c.workflow_id == bindparam("of"))
    .values(
        name=bindparam("new_name"),
        name_folded=bindparam("new_name"),
        status="inactive",
        updated_at=bindparam("now"),
        deleted_at=bindparam("now"),
        owner_set=null(),
    )
)
_DELETE_RESOURCE = Command(
    update(resources)
    .where(resources.c.resource_id == bindparam("of"))
    .values(name=bindparam("new_name"), kind=bindparam("new_kind"), updated_at=bindparam("now"), owner_set=null())
)
# A deleted workflow has only ended runs, and the index over them serves.
_UNNAMED_WORKFLOWS = ScalarQuery[str](
    select(workflows.c.workflow_id)
    .where(
        workflows.c.deleted_at < bindparam("before"),
        ~exists().where(runs.c.workflow_id == workflows.c.workflow_id, runs.c.finished_at.is_not(None)),
    )
    .limit(bindparam("limit"))
)
_UNNAMED_RESOURCES = ScalarQuery[str](
    select(resources.c.resource_id)
    .where(
        resources.c.kind.like(literal_column(f"'{DELETED}%'")),
        resources.c.updated_at < bindparam("before"),
        ~exists().where(workflow_version_resources.c.resource_id == resources.c.resource_id),
        ~exists().where(publications.c.graph_id == resources.c.resource_id),
    )
    .limit(bindparam("limit"))
)
_REMOVE_WORKFLOW = Command(delete(workflows).where(workflows.c.workflow_id == bindparam("of")))
_REMOVE_RESOURCE = Command(delete(resources).where(resources.c.resource_id == bindparam("of")))


def keys_listing(tx: Tx, workflow_id: str) -> list[ListingKeyRow]:
    """Returns the API keys, except revoked ones, whose list names a workflow."""
    return tx.all(_KEYS, pattern=containing(f'"{workflow_id}"'))


def people_listing(tx: Tx, workflow_id: str) -> list[str]:
    """Returns the names of people whose list of workflows names this one."""
    return tx.scalars(_PEOPLE, pattern=containing(f'"{workflow_id}"'))


def runs_of_workflow(tx: Tx, workflow_id: str, most: int) -> tuple[list[str], int]:
    """Returns up to `most` runs in flight of a workflow, by id, and the number of all."""
    return _RUNS_OF_WORKFLOW.find(tx, workflow_id, most)


def runs_of_pin(tx: Tx, resource_id: str, most: int) -> tuple[list[str], int]:
    """Returns the runs, as `runs_of_workflow`, whose versions are pinned to an agent or environment."""
    return _RUNS_OF_PIN.find(tx, resource_id, most)


def versions_in_flight(tx: Tx) -> list[VersionInFlightRow]:
    """Returns the workflow versions with runs in flight."""
    return tx.all(_VERSIONS_IN_FLIGHT)


def some_runs(tx: Tx, versions: Iterable[VersionInFlightRow], most: int) -> list[str]:
    """Returns up to `most` runs in flight of the versions."""
    found: list[str] = []
    for row in versions:
        if len(found) < most:
            found += tx.scalars(_RUNS_OF_VERSION, of=row.workflow_id, of_version=row.version, most=most - len(found))
    return found


def publishing(tx: Tx, graph_id: str, most: int) -> tuple[list[str], int]:
    """Returns the runs, as `runs_of_workflow`, whose publications to a knowledge graph are under way."""
    return _PUBLISHING.find(tx, graph_id, most)


def delete_workflow(tx: Tx, workflow_id: str, name: str, now: int) -> None:
    """Marks a workflow as deleted, and frees its name."""
    tx.enqueue(_DELETE_WORKFLOW, of=workflow_id, new_name=deleted_name(name, workflow_id), now=now)
    touch(tx)


def delete_resource(tx: Tx, kind: str, resource_id: str, name: str, now: int) -> None:
    """Marks a resource as deleted, and frees its name."""
    freed = deleted_name(name, resource_id)
    tx.enqueue(_DELETE_RESOURCE, of=resource_id, new_name=freed, new_kind=DELETED + kind, now=now)
    touch(tx)


def remove_unnamed(tx: Tx, before: int, limit: int) -> int:
    """Removes definitions deleted before a time that no run, workflow version or publication names.

    Workflows are removed first, with their pins. Removes at most `limit` workflows and resources; returns the number.
    """
    gone = tx.scalars(_UNNAMED_WORKFLOWS, before=before, limit=limit)
    tx.many(_REMOVE_WORKFLOW, [{"of": each} for each in gone])
    unused = tx.scalars(_UNNAMED_RESOURCES, before=before, limit=limit)
    tx.many(_REMOVE_RESOURCE, [{"of": each} for each in unused])
    return len(gone) + len(unused)
