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
    answer,
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
        """Returns active workflows of the caller by a prefix of the name; internal callers may ask for all."""
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
            items = [workflow_message(row, self._terms(tx, row)) for row in shown]
            return workflows_pb2.ListWorkflowsResponse(items=items, next_page_token=token)

        return self._services.database.snapshot(work)

    def GetWorkflow(
        self, request: workflows_pb2.GetWorkflowRequest, context: grpc.ServicerContext
    ) -> workflows_pb2.Workflow:
        """Returns one workflow that the caller has access to."""
        row, terms = self._read(request.workflow_id, principal_of(context).key_id)
        return workflow_message(row, terms)

    def GetWorkflowForKey(
        self, request: workflows_pb2.GetWorkflowForKeyRequest, context: grpc.ServicerContext
    ) -> workflows_pb2.Workflow:
        """Returns one workflow if the key has access to it, refused as the key's own call would be."""
        row, terms = self._read(request.workflow_id, request.key_id)
        return workflow_message(row, terms)

    def ListParameters(
        self, request: workflows_pb2.ListParametersRequest, context: grpc.ServicerContext
    ) -> workflows_pb2.ListParametersResponse:
        """Returns the declared parameters of a workflow that the caller has access to."""
        paging = Paging(self._services.cursors, request, principal_of(context).key_id, of=request.workflow_id)
        row, terms = self._read(request.workflow_id, principal_of(context).key_id)
        version = terms.version or row.newest_version
        if paging.after is not None and paging.after[0] != version:
            raise paging.refusal(f"must be of a page of version {version}, which is active now")
        declared = list(enumerate(terms.parameters))
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
        """Applies all files, or nothing; a dry run applies them in a transaction that is taken back."""
        # Manifests are applied rarely: a start of the service does without what reads them.
        from backend.services.workflows.applying import apply_files

        return apply_files(self._services, self._packages, request, principal_of(context).audit_name)

    def UpdateWorkflowStatus(
        self, request: workflows_pb2.UpdateWorkflowStatusRequest, context: grpc.ServicerContext
    ) -> workflows_pb2.Workflow:
        """Switches a workflow on or off; asking for the status it has changes nothing."""
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
                row = _found(sql.get(tx, row.workflow_id))
            return workflow_message(row, self._terms(tx, row))

        return self._services.database.write(work)

    def GetWorkflowDefinition(
        self, request: workflows_pb2.GetWorkflowDefinitionRequest, context: grpc.ServicerContext
    ) -> workflows_pb2.WorkflowDefinition:
        """The definition of the version asked for, else of the active one."""

        def work(tx: Tx) -> workflows_pb2.WorkflowDefinition:
            row = _named(tx, request.workflow, deleted=True)
            deleted = row.deleted_at is not None
            terms = load_deleted_workflow(tx, row, self._services.capabilities) if deleted else self._terms(tx, row)
            message = workflow_message(row, terms)
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
        """Lists with the connector's credentials, outside of any transaction, and records the outcome."""
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
        """Returns what an `s3_prefix` parameter may name, listed outside of any transaction."""
        version = request.version if request.HasField("version") else None
        terms = self._services.database.snapshot(
            lambda tx: load_workflow(
                self._services.cache, tx, self._services.capabilities, request.workflow_id, version
            )
        )
        return browse(connector_of(terms, request.parameter), request.uri, self._services.secrets)

    def ListKnowledgeGraphs(
        self, request: workflows_pb2.ListKnowledgeGraphsRequest, context: grpc.ServicerContext
    ) -> workflows_pb2.ListKnowledgeGraphsResponse:
        """Knowledge graphs by name."""
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
        """The answer to a query, part by part."""
        row = self._services.database.snapshot(lambda tx: named_resource(tx, "knowledge_graph", request.name))
        try:
            graph = self._graphs.get(row.resource_id, row.version, json.loads(row.definition))
        except GraphRefusedError as error:
            # Nothing is wrong with a field of the request.
            message = f"The knowledge graph cannot be queried: {error}."
            raise ApiError(errors_pb2.ERROR_REASON_RUNTIME_ERROR, message) from error
        yield from answer(graph, request)

    def _read(self, workflow_id: str, key_id: str | None) -> tuple[WorkflowRow, ResolvedWorkflow]:
        """Returns a workflow that a key may read, or anybody else for None.

        Without access it is 404, if inactive 409 for a key without a list.
        """

        def work(tx: Tx) -> tuple[WorkflowRow, ResolvedWorkflow]:
            access = access_of(tx, key_id)
            row = _found(sql.get(tx, workflow_id) if access.allows(workflow_id) else None)
            if access.active_only and row.status != "active":
                raise ApiError(errors_pb2.ERROR_REASON_WORKFLOW_NOT_ACTIVE)
            return row, self._terms(tx, row)

        return self._services.database.snapshot(work)

    def _terms(self, tx: Tx, row: WorkflowRow) -> ResolvedWorkflow:
        terms = load_workflow(self._services.cache, tx, self._services.capabilities, row.workflow_id)
        assert terms is not None, "the row was read in the same transaction"
        return terms


def _named(tx: Tx, text: str, *, deleted: bool = False) -> WorkflowRow:
    """Returns the workflow that a person names by id or name; with `deleted` a deleted one, too, by its id."""
    row = sql.find(tx, text)
    if row is None or (row.deleted_at is not None and not deleted):
        message = not_found_message("workflow", text, (each.name for each in sql.all_workflows(tx)))
        raise ApiError(errors_pb2.ERROR_REASON_WORKFLOW_NOT_FOUND, message)
    return row


def _found(row: WorkflowRow | None) -> WorkflowRow:
    if row is None:
        raise ApiError(errors_pb2.ERROR_REASON_WORKFLOW_NOT_FOUND)
    return row
