"""WorkflowsService over gRPC: workflows for callers, and manifests, resources and graphs for administrators."""

import json
from collections.abc import Iterator
from typing import Final

import grpc

from backend.common.errors import ApiError, invalid, not_found_message
from backend.common.paging import Paging
from backend.resources.connectors.connection_tests import ConnectionTests, TooManyTestsError
from backend.resources.environments.store import PackageStore
from backend.resources.graphs.graph import GraphRefusedError
from backend.resources.graphs.graphs import Graphs
from backend.rpc.callers import principal_of
from backend.services.audit import sql as audit
from backend.services.dependencies import Services
from backend.services.workflows import resources_sql, sql, versions_sql
from backend.services.workflows.connectors import browse, connector_of, record_connection_test
from backend.services.workflows.messages import STATUSES, parameter_message, version_resource_message, workflow_message
from backend.services.workflows.resolved_workflow import ResolvedWorkflow, load_deleted_workflow, load_workflow
from backend.services.workflows.resource_reads import (
    answer_query,
    knowledge_graph_message,
    named_resource,
    publications_message,
    resource_definition,
    resource_page,
)
from backend.services.workflows.rules import access_of
from backend.services.workflows.schedules import sync_schedules
from backend.services.workflows.sql import ListedPublicationRow, newest_publications
from backend.storage.database import Tx
from backend.storage.tables.workflows import WorkflowRow
from contract.times import to_timestamp
from workflow_api.v1 import errors_pb2, workflows_pb2, workflows_pb2_grpc

_TEST_RETRY_SECONDS: Final = 5
_SETTABLE: Final = {STATUSES[name]: name for name in ("active", "inactive")}


class WorkflowsServicer(workflows_pb2_grpc.WorkflowsServiceServicer):
    """Reads workflows that a caller has access to; applies manifests for administrators."""

    def __init__(self, services: Services, graphs: Graphs, packages: PackageStore) -> None:
        self._services = services
        self._graphs = graphs
        self._packages = packages
        self._connection_tests = ConnectionTests()

    def ListWorkflows(
        self, request: workflows_pb2.ListWorkflowsRequest, context: grpc.ServicerContext
    ) -> workflows_pb2.ListWorkflowsResponse:
        """Returns the caller's active workflows whose name begins with `q`, or for internal callers all statuses."""
        caller = principal_of(context)
        paging = Paging(self._services.cursors, request, caller.key_id)
        every_status = request.include_inactive and caller.key_id is None
        start = request.q.casefold()

        def work(tx: Tx) -> workflows_pb2.ListWorkflowsResponse:
            access = access_of(tx, caller.key_id)
            rows = [
                row
                for row in sql.all_workflows(tx)
                if (every_status or row.status == "active")
                and row.name_folded.startswith(start)
                and access.allows(row.workflow_id)
                and (caller.workflow_ids is None or row.workflow_id in caller.workflow_ids)
            ]
            shown, token = paging.page_of(rows, lambda row: (row.name, row.workflow_id))
            items = [workflow_message(row, self._resolve(tx, row)) for row in shown]
            return workflows_pb2.ListWorkflowsResponse(items=items, next_page_token=token)

        return self._services.database.snapshot(work)

    def GetWorkflow(
        self, request: workflows_pb2.GetWorkflowRequest, context: grpc.ServicerContext
    ) -> workflows_pb2.Workflow:
        """Returns one workflow that the caller has access to."""
        row, workflow = self._read(request.workflow_id, principal_of(context).key_id)
        return workflow_message(row, workflow)

    def GetWorkflowForKey(
        self, request: workflows_pb2.GetWorkflowForKeyRequest, context: grpc.ServicerContext
    ) -> workflows_pb2.Workflow:
        """Returns one workflow if an API key has access to it, with the refusals of that key's own call."""
        row, workflow = self._read(request.workflow_id, request.key_id)
        return workflow_message(row, workflow)

    def ListParameters(
        self, request: workflows_pb2.ListParametersRequest, context: grpc.ServicerContext
    ) -> workflows_pb2.ListParametersResponse:
        """Returns the declared parameters of a workflow that the caller has access to."""
        paging = Paging(self._services.cursors, request, principal_of(context).key_id, of=request.workflow_id)
        row, workflow = self._read(request.workflow_id, principal_of(context).key_id)
        version = workflow.version or row.newest_version
        if paging.after is not None and paging.after[0] != version:
            raise paging.refusal(f"must be of a page of version {version}, which is active now")
        declared = list(enumerate(workflow.parameters))
        shown, token = paging.page_of(declared, lambda parameter: (version, parameter[0]))
        return workflows_pb2.ListParametersResponse(
            workflow_id=row.workflow_id,
            version=version,
            parameters=[parameter_message(declaration) for _, declaration in shown],
            next_page_token=token,
        )

    def ApplyManifests(
        self, request: workflows_pb2.ApplyManifestsRequest, context: grpc.ServicerContext
    ) -> workflows_pb2.ApplyManifestsResponse:
        """Applies all files, or none; a dry run applies them in a transaction that is rolled back."""
        # Imported on use, to keep the start of the process fast: manifests are applied rarely.
        from backend.services.workflows.applying import apply_files

        return apply_files(self._services, self._packages, request, principal_of(context).audit_name)

    def UpdateWorkflowStatus(
        self, request: workflows_pb2.UpdateWorkflowStatusRequest, context: grpc.ServicerContext
    ) -> workflows_pb2.Workflow:
        """Sets a workflow active or inactive; its present status changes nothing."""
        status = _SETTABLE.get(request.status)
        if status is None:
            raise invalid("status", f"must be one of: {', '.join(_SETTABLE.values())}")
        actor = principal_of(context).audit_name

        def work(tx: Tx) -> workflows_pb2.Workflow:
            row = _named(tx, request.workflow)
            if row.status != status:
                now = self._services.clock()
                sql.change_workflow(tx, row, now, status=status)
                sync_schedules(tx, row.workflow_id, now)
                details = {"name": row.name, "from": row.status, "to": status}
                audit.record(
                    tx, at=now, actor=actor, action="workflow.status_changed", target=row.workflow_id, details=details
                )
                row = _require_row(sql.get(tx, row.workflow_id))
            return workflow_message(row, self._resolve(tx, row))

        return self._services.database.write(work)

    def GetWorkflowDefinition(
        self, request: workflows_pb2.GetWorkflowDefinitionRequest, context: grpc.ServicerContext
    ) -> workflows_pb2.WorkflowDefinition:
        """Returns the definition of the requested version, by default of the active one."""

        def work(tx: Tx) -> workflows_pb2.WorkflowDefinition:
            row = _named(tx, request.workflow, deleted=True)
            deleted = row.deleted_at is not None
            workflow = (
                load_deleted_workflow(tx, row, self._services.capabilities) if deleted else self._resolve(tx, row)
            )
            message = workflow_message(row, workflow)
            version = request.version if request.HasField("version") else message.version
            definition = versions_sql.definition_text(tx, row.workflow_id, version)
            if definition is None:
                missing = f"{row.name} has no version {version}: its newest is {row.newest_version}."
                raise ApiError(errors_pb2.ERROR_REASON_VERSION_NOT_FOUND, missing)
            pins = versions_sql.pins_of(tx, row.workflow_id, version).values()
            return workflows_pb2.WorkflowDefinition(
                workflow=message,
                version=version,
                definition=definition,
                resources=[version_resource_message(pin) for pin in pins],
                deleted_at=None if row.deleted_at is None else to_timestamp(row.deleted_at),
                set_name=row.owner_set,
                variables=json.loads(versions_sql.variables_text(tx, row.workflow_id, version) or "{}"),
            )

        return self._services.database.snapshot(work)

    def ListResources(
        self, request: workflows_pb2.ListResourcesRequest, context: grpc.ServicerContext
    ) -> workflows_pb2.ListResourcesResponse:
        """Returns resources of one kind by name."""
        return resource_page(self._services, request)

    def GetResource(
        self, request: workflows_pb2.GetResourceRequest, context: grpc.ServicerContext
    ) -> workflows_pb2.ResourceDefinition:
        """Returns one version of a resource."""
        return resource_definition(self._services, request)

    def TestConnector(
        self, request: workflows_pb2.TestConnectorRequest, context: grpc.ServicerContext
    ) -> workflows_pb2.ConnectorTest:
        """Tests a connector by listing with its credentials, outside of any transaction, and records the outcome."""
        row = self._services.database.snapshot(lambda tx: named_resource(tx, "connector", request.name))
        try:
            outcome = self._connection_tests.run(json.loads(row.definition), self._services.secrets)
        except TooManyTestsError:
            message = "Tests of connections are already running, as many as may be at once: try again in a few seconds."
            raise ApiError(errors_pb2.ERROR_REASON_RATE_LIMITED, message, retry_after=_TEST_RETRY_SECONDS) from None
        return record_connection_test(self._services, row, outcome, principal_of(context).audit_name)

    def BrowseInputs(
        self, request: workflows_pb2.BrowseInputsRequest, context: grpc.ServicerContext
    ) -> workflows_pb2.BrowseInputsResponse:
        """Lists the objects that an `s3_prefix` parameter may name, outside of any transaction."""
        version = request.version if request.HasField("version") else None
        workflow = self._services.database.snapshot(
            lambda tx: load_workflow(
                self._services.cache, tx, self._services.capabilities, request.workflow_id, version
            )
        )
        return browse(connector_of(workflow, request.parameter), request.uri, self._services.secrets)

    def ListKnowledgeGraphs(
        self, request: workflows_pb2.ListKnowledgeGraphsRequest, context: grpc.ServicerContext
    ) -> workflows_pb2.ListKnowledgeGraphsResponse:
        """Returns knowledge graphs by name."""
        paging = Paging(self._services.cursors, request)
        (name,) = paging.after or ("",)
        rows = self._services.database.read(
            lambda tx: resources_sql.knowledge_graphs(tx, after=str(name), limit=paging.rows_to_read)
        )
        shown, token = paging.cut(rows, lambda row: (row.name,))
        return workflows_pb2.ListKnowledgeGraphsResponse(
            items=[knowledge_graph_message(row) for row in shown], next_page_token=token
        )

    def GetKnowledgeGraphPublications(
        self, request: workflows_pb2.GetKnowledgeGraphPublicationsRequest, context: grpc.ServicerContext
    ) -> workflows_pb2.KnowledgeGraphPublications:
        """Returns the newest publications of runs."""

        def work(tx: Tx) -> list[ListedPublicationRow]:
            row = named_resource(tx, "knowledge_graph", request.name)
            return newest_publications(tx, row.resource_id)

        return publications_message(self._services.database.snapshot(work))

    def QueryKnowledgeGraph(
        self, request: workflows_pb2.QueryKnowledgeGraphRequest, context: grpc.ServicerContext
    ) -> Iterator[workflows_pb2.KnowledgeGraphAnswer]:
        """Yields the answer to a query, part by part."""
        row = self._services.database.snapshot(lambda tx: named_resource(tx, "knowledge_graph", request.name))
        try:
            graph = self._graphs.get(row.resource_id, row.version, json.loads(row.definition))
        except GraphRefusedError as error:
            # Not `invalid_request`, because the request is valid.
            message = f"The knowledge graph cannot be queried: {error}."
            raise ApiError(errors_pb2.ERROR_REASON_RUNTIME_ERROR, message) from error
        yield from answer_query(graph, request)

    def _read(self, workflow_id: str, key_id: str | None) -> tuple[WorkflowRow, ResolvedWorkflow]:
        """Returns a workflow that an API key, or an internal caller for None, may read.

        Raises `workflow_not_found` without access, `workflow_not_active` for a key without a list.
        """

        def work(tx: Tx) -> tuple[WorkflowRow, ResolvedWorkflow]:
            access = access_of(tx, key_id)
            row = _require_row(sql.get(tx, workflow_id) if access.allows(workflow_id) else None)
            if access.active_only and row.status != "active":
                raise ApiError(errors_pb2.ERROR_REASON_WORKFLOW_NOT_ACTIVE)
            return row, self._resolve(tx, row)

        return self._services.database.snapshot(work)

    def _resolve(self, tx: Tx, row: WorkflowRow) -> ResolvedWorkflow:
        workflow = load_workflow(self._services.cache, tx, self._services.capabilities, row.workflow_id)
        assert workflow is not None, "the row was read in the same transaction"
        return workflow


def _named(tx: Tx, text: str, *, deleted: bool = False) -> WorkflowRow:
    """Returns a workflow by id or name; with `deleted` also a deleted one, by id."""
    row = sql.find(tx, text)
    if row is None or (row.deleted_at is not None and not deleted):
        message = not_found_message("workflow", text, (each.name for each in sql.all_workflows(tx)))
        raise ApiError(errors_pb2.ERROR_REASON_WORKFLOW_NOT_FOUND, message)
    return row


def _require_row(row: WorkflowRow | None) -> WorkflowRow:
    if row is None:
        raise ApiError(errors_pb2.ERROR_REASON_WORKFLOW_NOT_FOUND)
    return row
