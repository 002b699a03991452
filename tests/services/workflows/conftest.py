"""A servicer of workflows on a real database, with keys that have access."""

import json
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from backend.common.secrets import Secrets
from backend.resources.graphs.graphs import Graphs
from backend.services.dependencies import Services
from backend.services.keys import sql as keys_sql
from backend.services.workflows import resources_sql
from backend.services.workflows.resolved_workflow import load_workflow
from backend.services.workflows.servicer import WorkflowsServicer
from tests.services.calls import Caller
from tests.support.wheels import package_store
from workflow_api.v1 import workflows_pb2

ALL_ACTIVE = "ak_aaaaaaaaaaaa"
LISTED = "ak_bbbbbbbbbbbb"

RESOURCES = """
    kind: Environment
    name: standard
    ---
    kind: Agent
    name: counter
    type: python
    code: |
      def run(context):
          return 1
    ---
    kind: Connector
    name: inbox
    type: s3
    bucket: docs
    prefixes: [incoming/]
    ---
    kind: KnowledgeGraph
    name: contracts
"""

READY = """
    kind: Workflow
    name: Ready
    description: Counts.
    status: active
    steps: [{step: count, agent: counter, environment: standard}]
"""


class Workflows:
    """Calls WorkflowsService, and prepares the data of tests."""

    def __init__(self, services: Services, data: Path) -> None:
        self.services = services
        self.graphs = Graphs(data / "graphs", Secrets())
        self.call = Caller(
            WorkflowsServicer(services, self.graphs, package_store(data)),
            workflows_pb2.DESCRIPTOR.services_by_name["WorkflowsService"],
        )

    def apply(self, *texts: str, dry_run: bool = False, attached: Mapping[str, bytes] | None = None) -> list[Any]:
        """Applies files named f0.yaml, f1.yaml, … with these attached to each; returns what became of them."""
        given = [workflows_pb2.AttachedFile(path=path, content=content) for path, content in (attached or {}).items()]
        files = [
            workflows_pb2.ManifestFile(name=f"f{n}.yaml", content=textwrap.dedent(text), attached_files=given)
            for n, text in enumerate(texts)
        ]
        answer = self.call("ApplyManifests", workflows_pb2.ApplyManifestsRequest(files=files, dry_run=dry_run))
        return list(answer.items)

    def get(self, workflow_id: str, key_id: str | None = None) -> Any:
        return self.call("GetWorkflow", workflows_pb2.GetWorkflowRequest(workflow_id=workflow_id), key_id)

    def get_for_key(self, workflow_id: str, key_id: str) -> Any:
        request = workflows_pb2.GetWorkflowForKeyRequest(workflow_id=workflow_id, key_id=key_id)
        return self.call("GetWorkflowForKey", request, None)

    def list(self, key_id: str | None = None, **fields: Any) -> Any:
        return self.call("ListWorkflows", workflows_pb2.ListWorkflowsRequest(**fields), key_id)

    def parameters(self, workflow_id: str, key_id: str | None = None) -> Any:
        return self.call("ListParameters", workflows_pb2.ListParametersRequest(workflow_id=workflow_id), key_id)

    def set_status(self, workflow: str, status: workflows_pb2.WorkflowStatus.ValueType) -> Any:
        request = workflows_pb2.UpdateWorkflowStatusRequest(workflow=workflow, status=status)
        return self.call("UpdateWorkflowStatus", request)

    def resource(self, kind: str, name: str) -> Any:
        return self.services.database.read(lambda tx: resources_sql.resource(tx, kind, name))

    def terms(self, workflow_id: str, version: int | None = None) -> Any:
        return self.services.database.snapshot(
            lambda tx: load_workflow(self.services.cache, tx, self.services.capabilities, workflow_id, version)
        )

    def record_test(self, name: str, *, passed: bool) -> None:
        """Records a connection test of the connector's newest version."""

        def work(tx: Any) -> None:
            row = resources_sql.resource(tx, "connector", name)
            assert row is not None
            resources_sql.record_test(
                tx, connector_id=row.resource_id, version=row.version, passed=passed, message="any", now=1
            )

        self.services.database.write(work)


@pytest.fixture
def workflows(services: Services, tmp_path: Path) -> Iterator[Workflows]:
    workflows = Workflows(services, tmp_path)
    yield workflows
    workflows.graphs.close()


@pytest.fixture
def add_key(services: Services) -> Callable[..., str]:
    """Adds a key with access to every active workflow, or to the listed ones."""

    def add(key_id: str, listed: list[str] | None = None) -> str:
        columns: dict[str, object] = {
            "key_id": key_id,
            "deployment_id": services.deployment_id,
            "name": key_id,
            "description": "",
            "secret_sha256": "",
            "previous_secret_sha256": None,
            "previous_secret_expires_at": None,
            "external_id_sha256": "",
            "scopes": "[]",
            "access_mode": "all_active" if listed is None else "explicit",
            "access_workflow_ids": json.dumps(listed or []),
            "source_allow_list": "[]",
            "start_hour": None,
            "end_hour": None,
            "created_at": 0,
            "expires_at": 2**50,
            "rate_limit_rpm": 60,
            "daily_run_quota": 100,
            "daily_tokens": None,
            "daily_cost_microusd": None,
            "priority": "normal",
            "max_concurrent_runs": 10,
            "revoked_at": None,
        }
        services.database.write(lambda tx: keys_sql.add(tx, columns))
        return key_id

    return add
