"""Reads of environments, connectors, agents and knowledge graphs for administrators, and queries of graphs."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from backend.common.errors import ApiError, invalid, not_found_message
from backend.common.paging import Paging
from backend.resources.graphs.graph import Bounds, Graph, GraphRefusedError, GraphUnavailableError, check_query
from backend.services.dependencies import Services
from backend.services.workflows import resources_sql
from backend.services.workflows.manifests.names import MOST_OF_A_KIND
from backend.services.workflows.resources_sql import KnowledgeGraphRow, ListedRow, ResourceRow
from backend.services.workflows.sql import ListedPublicationRow
from backend.services.workflows.uses import dependent_workflow_names
from backend.storage.database import Tx
from contract.fields import given_or_default, given_or_default_duration
from contract.times import to_timestamp
from workflow_api.v1 import errors_pb2, workflows_pb2

KINDS: Final[Mapping[workflows_pb2.ResourceKind.ValueType, str]] = {
    workflows_pb2.RESOURCE_KIND_ENVIRONMENT: "environment",
    workflows_pb2.RESOURCE_KIND_CONNECTOR: "connector",
    workflows_pb2.RESOURCE_KIND_AGENT: "agent",
    workflows_pb2.RESOURCE_KIND_KNOWLEDGE_GRAPH: "knowledge_graph",
}
"""Kinds of resources in tables, by kind in protos."""

_TEST_OUTCOMES: Final = {None: "not tested", 0: "failed", 1: "passed"}


def resource_page(
    services: Services, request: workflows_pb2.ListResourcesRequest
) -> workflows_pb2.ListResourcesResponse:
    """Returns a page of the resources of one kind, by name.

    Raises:
        ApiError: `invalid_request` for a token of another list.
    """
    kind = KINDS[request.kind]
    paging = Paging(services.cursors, request, of=kind)
    (name,) = paging.after or ("",)
    rows = services.database.read(
        lambda tx: resources_sql.resources_of_kind(tx, kind, after=str(name), limit=paging.rows_to_read)
    )
    shown, token = paging.cut(rows, lambda row: (row.name,))
    return workflows_pb2.ListResourcesResponse(items=[_listed(row) for row in shown], next_page_token=token)


def resource_definition(
    services: Services, request: workflows_pb2.GetResourceRequest
) -> workflows_pb2.ResourceDefinition:
    """Returns one version of a resource, found by id or name.

    Raises:
        ApiError: `not_found`, `version_not_found`.
    """
    kind = KINDS[request.kind]

    def work(tx: Tx) -> workflows_pb2.ResourceDefinition:
        live = resources_sql.named_or_identified(tx, kind, request.resource)
        row = live or resources_sql.deleted(tx, kind, request.resource)
        if row is None:
            raise _not_found(tx, kind, request.resource)
        version = request.version if request.HasField("version") else row.version
        definition = resources_sql.definition_of(tx, row.resource_id, version)
        if definition is None:
            message = f"{row.name} has no version {version}: its newest is {row.version}."
            raise ApiError(errors_pb2.ERROR_REASON_VERSION_NOT_FOUND, message)
        return workflows_pb2.ResourceDefinition(
            resource=_resource(row),
            shown_version=version,
            definition=definition,
            used_by=[] if live is None else dependent_workflow_names(tx, (kind, row.name)),
            last_test=_last_test(tx, row) if kind == "connector" else None,
            deleted_at=to_timestamp(row.updated_at) if live is None else None,
            variables=json.loads(resources_sql.variables_text(tx, row.resource_id, version) or "{}"),
        )

    return services.database.snapshot(work)


def named_resource(tx: Tx, kind: str, name: str) -> ResourceRow:
    """Returns a resource by name; raises ApiError `not_found` with similar names."""
    row = resources_sql.resource(tx, kind, name)
    if row is None:
        raise _not_found(tx, kind, name)
    return row


def _not_found(tx: Tx, kind: str, name: str) -> ApiError:
    known = resources_sql.resources_of_kind(tx, kind, after="", limit=MOST_OF_A_KIND)
    message = not_found_message(kind.replace("_", " "), name, (row.name for row in known))
    return ApiError(errors_pb2.ERROR_REASON_NOT_FOUND, message)


def _resource(row: ResourceRow) -> workflows_pb2.Resource:
    definition = json.loads(row.definition)
    shown = {name: definition.get(name) for name in ("type", "store", "status")}
    return _listed(
        ListedRow(
            resource_id=row.resource_id,
            kind=row.kind,
            name=row.name,
            version=row.version,
            created_at=row.created_at,
            updated_at=row.updated_at,
            newest_passed=row.newest_passed,
            owner_set=row.owner_set,
            **shown,
        )
    )


def _listed(row: ListedRow) -> workflows_pb2.Resource:
    return workflows_pb2.Resource(
        kind=next(kind for kind, name in KINDS.items() if name == row.kind),
        resource_id=row.resource_id,
        name=row.name,
        version=row.version,
        type=row.store if row.kind == "knowledge_graph" else row.type,
        status=_TEST_OUTCOMES[row.newest_passed] if row.kind == "connector" else row.status,
        created_at=to_timestamp(row.created_at),
        updated_at=to_timestamp(row.updated_at),
        set_name=row.owner_set,
    )


def _last_test(tx: Tx, row: ResourceRow) -> workflows_pb2.ConnectorTest | None:
    test = resources_sql.last_test(tx, row.resource_id, row.version)
    if test is None:
        return None
    return workflows_pb2.ConnectorTest(
        connector_id=row.resource_id,
        name=row.name,
        version=test.version,
        passed=bool(test.passed),
        message=test.message,
        tested_at=to_timestamp(test.tested_at),
    )


_PUBLISHED: Final = frozenset({"landed", "kept"})


def knowledge_graph_message(row: KnowledgeGraphRow) -> workflows_pb2.KnowledgeGraph:
    """Converts a row of `resources_sql.knowledge_graphs` to a message."""
    return workflows_pb2.KnowledgeGraph(
        graph_id=row.resource_id,
        name=row.name,
        version=row.version,
        store=json.loads(row.definition).get("store", "folder"),
        runs=row.runs,
        pending=row.pending,
        created_at=to_timestamp(row.created_at),
        updated_at=to_timestamp(row.updated_at),
    )


def publications_message(rows: Iterable[ListedPublicationRow]) -> workflows_pb2.KnowledgeGraphPublications:
    """Converts rows of publications to a message."""
    return workflows_pb2.KnowledgeGraphPublications(
        items=[
            workflows_pb2.KnowledgeGraphPublication(
                run_id=row.run_id,
                state="published" if row.state in _PUBLISHED else row.state,
                requested_at=to_timestamp(row.requested_at),
            )
            for row in rows
        ]
    )


def answer_query(
    graph: Graph, request: workflows_pb2.QueryKnowledgeGraphRequest
) -> Iterator[workflows_pb2.KnowledgeGraphAnswer]:
    """Evaluates a query within its limits; yields the answer part by part.

    Raises:
        ApiError: `invalid_request`, the query cannot be evaluated; `runtime_error`, its store does not answer.
    """
    timeout = given_or_default_duration(request, "timeout")
    bounds = Bounds(rows=given_or_default(request, "limit"), seconds=timeout.seconds)
    try:
        check_query(request.query)
        for part in graph.query(request.query, bounds):
            yield workflows_pb2.KnowledgeGraphAnswer(
                form=part.form,
                variables=part.variables,
                boolean=part.boolean,
                rows=[json.dumps(row, ensure_ascii=False) for row in part.rows],
                triples=part.triples,
                truncated=part.truncated,
            )
    except GraphRefusedError as error:
        raise invalid("query", str(error)) from error
    except GraphUnavailableError as error:
        message = f"The knowledge graph does not answer: {error}."
        raise ApiError(errors_pb2.ERROR_REASON_RUNTIME_ERROR, message) from error
