"""SQL of resources (environments, connectors, agents, knowledge graphs), their versions, and connection tests."""

import json
from collections.abc import Iterable
from typing import Final, NamedTuple

from sqlalchemy import BigInteger, ScalarSelect, bindparam, func, insert, literal_column, select, update

from backend.common.ids import new_id
from backend.services.workflows.rules import Resource, ResourceKey
from backend.services.workflows.sql import DELETED, former_name, touch
from backend.storage.database import Tx
from backend.storage.sql_expressions import json_member
from backend.storage.statements import Command, Query, ScalarQuery, select_row
from backend.storage.tables.files import publications
from backend.storage.tables.workflows import connector_tests, resource_versions, resources

_ID_PREFIXES: Final = {"environment": "env", "connector": "con", "agent": "agt", "knowledge_graph": "kg"}


class ResourceRow(NamedTuple):
    """A resource at its newest version; for a connector, whether tests of that or of any version have passed."""

    resource_id: str
    kind: str
    name: str
    version: int
    definition: str
    created_at: int
    updated_at: int
    newest_passed: int | None
    ever_passed: int | None
    owner_set: str | None


class ListedRow(NamedTuple):
    """A resource in a list, without its definition, which may have 8 MiB."""

    resource_id: str
    kind: str
    name: str
    version: int
    created_at: int
    updated_at: int
    type: str | None
    store: str | None
    status: str | None
    newest_passed: int | None
    owner_set: str | None


class ResourceNameRow(NamedTuple):
    """Kind, id and name of a resource."""

    resource_id: str
    kind: str
    name: str
    version: int


class KnowledgeGraphRow(NamedTuple):
    """A knowledge graph at its newest version, with the numbers of published runs and of pending changes."""

    resource_id: str
    kind: str
    name: str
    version: int
    definition: str
    created_at: int
    updated_at: int
    runs: int
    pending: int


class TestRow(NamedTuple):
    """The last connection test of a connector's version."""

    version: int
    passed: int
    message: str
    tested_at: int


class CountRow(NamedTuple):
    """Number of resources of a kind."""

    kind: str
    resources: int


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
_BY_ID = Query(
    ResourceRow,
    select_row(ResourceRow, resources, newest_passed=_TEST_OF_VERSION, ever_passed=_BEST_TEST).where(
        resources.c.kind == bindparam("kind"), resources.c.resource_id == bindparam("resource_id")
    ),
)
_OF_KIND = Query(
    ListedRow,
    select_row(
        ListedRow,
        resources,
        type=json_member(resources.c.definition, "type"),
        store=json_member(resources.c.definition, "store"),
        status=json_member(resources.c.definition, "status"),
        newest_passed=_TEST_OF_VERSION,
    )
    .where(resources.c.kind == bindparam("kind"), resources.c.name > bindparam("after"))
    .order_by(resources.c.name)
    .limit(bindparam("limit")),
)
_NAMES = Query(ResourceNameRow, select_row(ResourceNameRow, resources).order_by(resources.c.kind, resources.c.name))
_DEFINITION = ScalarQuery[str](
    select(resource_versions.c.definition).where(
        resource_versions.c.resource_id == bindparam("resource_id"),
        resource_versions.c.version == bindparam("version", type_=BigInteger),
    )
)
_VARIABLES = ScalarQuery[str](
    select(resource_versions.c.variables).where(
        resource_versions.c.resource_id == bindparam("resource_id"),
        resource_versions.c.version == bindparam("version", type_=BigInteger),
    )
)
_LAST_TEST = Query(
    TestRow,
    select_row(TestRow, connector_tests).where(
        connector_tests.c.connector_id == bindparam("connector_id"), connector_tests.c.version == bindparam("version")
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
    .where(resources.c.kind == literal_column("'knowledge_graph'"), resources.c.name > bindparam("after"))
    .order_by(resources.c.name)
    .limit(bindparam("limit")),
)


def resource(tx: Tx, kind: str, name: str) -> ResourceRow | None:
    """Returns a resource with the results of its connection tests, or None."""
    return tx.first(_RESOURCE, kind=kind, name=name)


def named_or_identified(tx: Tx, kind: str, text: str) -> ResourceRow | None:
    """Returns the resource of a kind with this name, else with this id, or None."""
    return resource(tx, kind, text) or tx.first(_BY_ID, kind=kind, resource_id=text)


def deleted(tx: Tx, kind: str, resource_id: str) -> ResourceRow | None:
    """Returns a resource of a kind that was deleted, with its former kind and name, or None."""
    row = tx.first(_BY_ID, kind=DELETED + kind, resource_id=resource_id)
    return None if row is None else row._replace(kind=kind, name=former_name(row.name))


def resources_of_kind(tx: Tx, kind: str, *, after: str, limit: int) -> list[ListedRow]:
    """Returns a page of the resources of a kind, by name after `after`."""
    return tx.all(_OF_KIND, kind=kind, after=after, limit=limit)


def names(tx: Tx) -> list[ResourceNameRow]:
    """Returns kind, id and name of every resource, of which there are at most 256 of each kind."""
    return tx.all(_NAMES)


def definition_of(tx: Tx, resource_id: str, version: int) -> str | None:
    """Returns the definition of a version of a resource as JSON, or None."""
    return tx.scalar(_DEFINITION, resource_id=resource_id, version=version)


def variables_text(tx: Tx, resource_id: str, version: int) -> str | None:
    """Returns the values of the variables of a version of a resource as JSON; None where it uses none."""
    return tx.scalar(_VARIABLES, resource_id=resource_id, version=version)


def last_test(tx: Tx, connector_id: str, version: int) -> TestRow | None:
    """Returns the last connection test of a connector's version, or None."""
    return tx.first(_LAST_TEST, connector_id=connector_id, version=version)


def knowledge_graphs(tx: Tx, *, after: str, limit: int) -> list[KnowledgeGraphRow]:
    """Returns a page of knowledge graphs, by name after `after`."""
    return tx.all(_KNOWLEDGE_GRAPHS, after=after, limit=limit)


def resource_counts(tx: Tx) -> dict[str, int]:
    """Returns the number of resources by kind."""
    return {row.kind: row.resources for row in tx.all(_COUNTS)}


def add_resource(
    tx: Tx,
    *,
    kind: str,
    name: str,
    definition: str,
    now: int,
    source_digest: str | None = None,
    variables: str | None = None,
) -> str:
    """Writes a new resource with its version 1 and returns its id; `variables` are their values as JSON."""
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
        owner_set=None,
    )
    _add_version(tx, resource_id, 1, definition, now, source_digest, variables)
    return resource_id


def change_resource(
    tx: Tx,
    row: ResourceRow,
    definition: str,
    now: int,
    *,
    source_digest: str | None = None,
    variables: str | None = None,
) -> None:
    """Writes the next version of a resource; `variables` are their values as JSON."""
    version = row.version + 1
    tx.enqueue(
        _CHANGE_RESOURCE,
        of_resource_id=row.resource_id,
        new_version=version,
        new_definition=definition,
        new_updated_at=now,
    )
    _add_version(tx, row.resource_id, version, definition, now, source_digest, variables)


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
    touch(tx)


def resources_of(tx: Tx, keys: Iterable[ResourceKey]) -> dict[ResourceKey, Resource]:
    """Returns the named resources that exist, at their newest version."""
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


def _add_version(
    tx: Tx,
    resource_id: str,
    version: int,
    definition: str,
    now: int,
    source_digest: str | None,
    variables: str | None,
) -> None:
    tx.enqueue(
        _ADD_RESOURCE_VERSION,
        resource_id=resource_id,
        version=version,
        definition=definition,
        created_at=now,
        source_digest=source_digest,
        variables=variables,
    )
    touch(tx)
