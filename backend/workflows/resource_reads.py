"""Environments, connectors, agents and knowledge graphs, as administrators read them."""

import json
from collections.abc import Mapping
from typing import Final

from backend.close_names import no_such
from backend.errors import ApiError
from backend.paging import Paging
from backend.services import Services
from backend.storage.database import Tx
from backend.workflows import resources_sql
from backend.workflows.manifests.kind_names import MOST_OF_A_KIND
from backend.workflows.resources_sql import ListedRow, ResourceRow
from backend.workflows.uses import names_of_users
from contract.times import to_timestamp
from workflow_api.v1 import errors_pb2, workflows_pb2

KINDS: Final[Mapping[workflows_pb2.ResourceKind.ValueType, str]] = {
    workflows_pb2.RESOURCE_KIND_ENVIRONMENT: "environment",
    workflows_pb2.RESOURCE_KIND_CONNECTOR: "connector",
    workflows_pb2.RESOURCE_KIND_AGENT: "agent",
    workflows_pb2.RESOURCE_KIND_KNOWLEDGE_GRAPH: "knowledge_graph",
}
"""Kinds of the protos as the tables name them."""

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
    """Returns one version of a resource that is given by id or name.

    Raises:
        ApiError: `not_found`, `version_not_found`.
    """
    kind = KINDS[request.kind]

    def work(tx: Tx) -> workflows_pb2.ResourceDefinition:
        live = resources_sql.named_or_identified(tx, kind, request.resource)
        row = live or resources_sql.deleted(tx, kind, request.resource)
        if row is None:
            raise _no_such(tx, kind, request.resource)
        version = request.version if request.HasField("version") else row.version
        definition = resources_sql.definition_of(tx, row.resource_id, version)
        if definition is None:
            message = f"{row.name} has no version {version}: its newest is {row.version}."
            raise ApiError(errors_pb2.ERROR_REASON_VERSION_NOT_FOUND, message)
        return workflows_pb2.ResourceDefinition(
            resource=_resource(row),
            shown_version=version,
            definition=definition,
            used_by=[] if live is None else names_of_users(tx, (kind, row.name)),
            last_test=_last_test(tx, row) if kind == "connector" else None,
            deleted_at=to_timestamp(row.updated_at) if live is None else None,
        )

    return services.database.snapshot(work)


def named_resource(tx: Tx, kind: str, name: str) -> ResourceRow:
    """Returns a resource by its name; raises ApiError `not_found` with the names that come close."""
    row = resources_sql.resource(tx, kind, name)
    if row is None:
        raise _no_such(tx, kind, name)
    return row


def _no_such(tx: Tx, kind: str, name: str) -> ApiError:
    known = resources_sql.resources_of_kind(tx, kind, after="", limit=MOST_OF_A_KIND)
    message = no_such(kind.replace("_", " "), name, (row.name for row in known))
    return ApiError(errors_pb2.ERROR_REASON_NOT_FOUND, message)


def _resource(row: ResourceRow) -> workflows_pb2.Resource:
    definition = json.loads(row.definition)
    said = {name: definition.get(name) for name in ("type", "store", "status")}
    return _listed(
        ListedRow(
            resource_id=row.resource_id,
            kind=row.kind,
            name=row.name,
            version=row.version,
            created_at=row.created_at,
            updated_at=row.updated_at,
            newest_passed=row.newest_passed,
            **said,
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
