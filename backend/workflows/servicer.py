"""WorkflowsService over gRPC."""

import json
from collections.abc import Iterator
from typing import Final

import grpc

from backend.audit import sql as audit
from backend.clock import to_timestamp
from backend.connectors.object_storage import try_connection
from backend.errors import ApiError, invalid
from backend.graphs.graphs import Graphs
from backend.rpc.interceptors import caller_of
from backend.services import Services
from backend.storage.database import Tx
from backend.storage.tables.workflows import WorkflowRow
from backend.workflows import sql, versions_sql
from backend.workflows.access import access_of
from backend.workflows.graph_queries import answer, knowledge_graph_message
from backend.workflows.manifests.loader import load_manifests
from backend.workflows.messages import STATUSES, parameter_message, version_resource_message, workflow_message
from backend.workflows.service import apply_manifests
from backend.workflows.terms import WorkflowTerms
from backend.workflows.terms_cache import load_terms
from contract.defaults import given_or_default
from workflow_api.v1 import errors_pb2, workflows_pb2, workflows_pb2_grpc

_ROUTE: Final = "ListWorkflows"
_SETTABLE: Final = {STATUSES[name]: name for name in ("active", "inactive")}


class WorkflowsServicer(workflows_pb2_grpc.WorkflowsServiceServicer):
    """Reads workflows within a caller's reach; applies manifests for administrators."""

    def __init__(self, services: Services, graphs: Graphs) -> None:
        self._services = services
        self._graphs = graphs

    def ListWorkflows(
        self, request: workflows_pb2.ListWorkflowsRequest, context: grpc.ServicerContext
    ) -> workflows_pb2.ListWorkflowsResponse:
        """Active workflows within reach whose name begins with `q`; all of them for an internal caller who asks so."""
        caller = caller_of(context)
        cursors = self._services.cursors
        after = tuple(cursors.read(_ROUTE, caller.key_id, request.page_token)) if request.page_token else ()
        limit = given_or_default(request, "page_size")
        every_status = request.include_inactive and caller.key_id is None
        start = request.q.casefold()

        def work(tx: Tx) -> tuple[list[workflows_pb2.Workflow], list[WorkflowRow]]:
            reach = access_of(tx, caller.key_id)
            rows = [
                row
                for row in sql.all_workflows(tx)
                if (every_status or row.status == "active")
                and row.name_folded.startswith(start)
                and reach.holds(row.workflow_id)
                and (row.name, row.workflow_id) > after
            ]
            return [workflow_message(row, self._terms(tx, row)) for row in rows[:limit]], rows

        items, rows = self._services.database.snapshot(work)
        response = workflows_pb2.ListWorkflowsResponse(items=items)
        if len(rows) > limit:
            last = rows[limit - 1]
            response.next_page_token = cursors.issue(_ROUTE, caller.key_id, [last.name, last.workflow_id])
        return response

    def GetWorkflow(
        self, request: workflows_pb2.GetWorkflowRequest, context: grpc.ServicerContext
    ) -> workflows_pb2.Workflow:
        """One workflow within reach."""
        row, terms = self._read(request.workflow_id, context)
        return workflow_message(row, terms)

    def ListParameters(
        self, request: workflows_pb2.ListParametersRequest, context: grpc.ServicerContext
    ) -> workflows_pb2.ListParametersResponse:
        """The declared run inputs of a workflow within reach."""
        row, terms = self._read(request.workflow_id, context)
        return workflows_pb2.ListParametersResponse(
            workflow_id=row.workflow_id,
            version=terms.version or row.newest_version,
            parameters=[parameter_message(declaration) for declaration in terms.parameters],
        )

    def ApplyManifests(
        self, request: workflows_pb2.ApplyManifestsRequest, context: grpc.ServicerContext
    ) -> workflows_pb2.ApplyManifestsResponse:
        """Applies all files, or nothing."""
        files = ((file.name, file.content) for file in request.files)
        manifests = load_manifests(files, self._services.schemas.schema_check())
        actor = caller_of(context).audit_name
        now = self._services.clock()
        applied = self._services.database.write(lambda tx: apply_manifests(tx, manifests, now=now, actor=actor))
        return workflows_pb2.ApplyManifestsResponse(
            items=[workflows_pb2.AppliedResource(**one._asdict()) for one in applied]
        )

    def UpdateWorkflowStatus(
        self, request: workflows_pb2.UpdateWorkflowStatusRequest, context: grpc.ServicerContext
    ) -> workflows_pb2.Workflow:
        """Switches a workflow on or off; asking for the status it has changes nothing."""
        status = _SETTABLE.get(request.status)
        if status is None:
            raise invalid("status", f"must be one of: {', '.join(_SETTABLE.values())}")
        actor = caller_of(context).audit_name

        def work(tx: Tx) -> workflows_pb2.Workflow:
            row = _found(sql.find(tx, request.workflow))
            if row.status != status:
                now = self._services.clock()
                sql.change_workflow(tx, row, now, status=status)
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
            row = _found(sql.find(tx, request.workflow))
            message = workflow_message(row, self._terms(tx, row))
            version = request.version if request.HasField("version") else message.version
            definition = versions_sql.definition_text(tx, row.workflow_id, version)
            if definition is None:
                raise ApiError(errors_pb2.ERROR_REASON_VERSION_NOT_FOUND)
            pins = versions_sql.pins_of(tx, row.workflow_id, version).values()
            return workflows_pb2.WorkflowDefinition(
                workflow=message,
                version=version,
                definition=definition,
                resources=[version_resource_message(pin) for pin in pins],
            )

        return self._services.database.snapshot(work)

    def TestConnector(
        self, request: workflows_pb2.TestConnectorRequest, context: grpc.ServicerContext
    ) -> workflows_pb2.ConnectorTest:
        """Lists with the connector's credentials, outside of any transaction, and records the outcome."""
        row = self._services.database.read(lambda tx: sql.resource(tx, "connector", request.name))
        if row is None:
            raise ApiError(errors_pb2.ERROR_REASON_NOT_FOUND, f"There is no connector named {request.name}.")
        passed, message = try_connection(json.loads(row.definition), self._services.secrets)
        now = self._services.clock()
        actor = caller_of(context).audit_name

        def work(tx: Tx) -> None:
            sql.record_test(
                tx, connector_id=row.resource_id, version=row.version, passed=passed, message=message, now=now
            )
            details = {"name": row.name, "version": row.version, "passed": passed}
            audit.record(tx, at=now, actor=actor, action="connector.tested", target=row.resource_id, details=details)

        self._services.database.write(work)
        return workflows_pb2.ConnectorTest(
            connector_id=row.resource_id,
            name=row.name,
            version=row.version,
            passed=passed,
            message=message,
            tested_at=to_timestamp(now),
        )

    def ListKnowledgeGraphs(
        self, request: workflows_pb2.ListKnowledgeGraphsRequest, context: grpc.ServicerContext
    ) -> workflows_pb2.ListKnowledgeGraphsResponse:
        """Every knowledge graph by name."""
        rows = self._services.database.read(sql.knowledge_graphs)
        return workflows_pb2.ListKnowledgeGraphsResponse(items=[knowledge_graph_message(row) for row in rows])

    def QueryKnowledgeGraph(
        self, request: workflows_pb2.QueryKnowledgeGraphRequest, context: grpc.ServicerContext
    ) -> Iterator[workflows_pb2.KnowledgeGraphAnswer]:
        """The answer to a query, part by part."""
        row = self._services.database.read(lambda tx: sql.resource(tx, "knowledge_graph", request.name))
        if row is None:
            raise ApiError(errors_pb2.ERROR_REASON_NOT_FOUND, f"There is no knowledge graph named {request.name}.")
        graph = self._graphs.get(row.resource_id, row.version, json.loads(row.definition))
        yield from answer(graph, request)

    def _read(self, workflow_id: str, context: grpc.ServicerContext) -> tuple[WorkflowRow, WorkflowTerms]:
        """A workflow that the caller may read: 404 beyond reach, 409 for one not active that a key has no list for."""
        key_id = caller_of(context).key_id

        def work(tx: Tx) -> tuple[WorkflowRow, WorkflowTerms]:
            reach = access_of(tx, key_id)
            row = _found(sql.get(tx, workflow_id) if reach.holds(workflow_id) else None)
            if reach.active_only and row.status != "active":
                raise ApiError(errors_pb2.ERROR_REASON_WORKFLOW_NOT_ACTIVE)
            return row, self._terms(tx, row)

        return self._services.database.snapshot(work)

    def _terms(self, tx: Tx, row: WorkflowRow) -> WorkflowTerms:
        terms = load_terms(self._services.cache, tx, self._services.model_providers, row.workflow_id)
        assert terms is not None, "the row was read in the same transaction"
        return terms


def _found(row: WorkflowRow | None) -> WorkflowRow:
    if row is None:
        raise ApiError(errors_pb2.ERROR_REASON_WORKFLOW_NOT_FOUND)
    return row
