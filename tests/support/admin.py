"""The administrator's side over gRPC: keys, manifests, approvals and the deployment's flags."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc

from workflow_api.v1 import (
    audit_pb2_grpc,
    deployment_pb2_grpc,
    environments_pb2_grpc,
    keys_pb2,
    keys_pb2_grpc,
    logs_pb2_grpc,
    options_pb2,
    runs_pb2,
    runs_pb2_grpc,
    schedules_pb2_grpc,
    uploads_pb2_grpc,
    usage_pb2_grpc,
    users_pb2,
    users_pb2_grpc,
    webhooks_pb2_grpc,
    workflows_pb2,
    workflows_pb2_grpc,
)

SCOPES = ("workflows:read", "runs:create", "runs:read", "outputs:read", "runs:delete")
# By default a channel whose server was away for a while waits two minutes before it tries again.
_SOON_AGAIN = [("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 1_000)]
MANIFESTS = Path(__file__).with_name("workflows.yaml")


def scope_number(scope: str) -> options_pb2.Scope.ValueType:
    """Returns the enum value of a scope such as `runs:read`."""
    return options_pb2.Scope.Value("SCOPE_" + scope.upper().replace(":", "_"))


@dataclass(frozen=True)
class Credentials:
    """Credentials of a key, which only its creation shows."""

    key_id: str
    key: str
    external_id: str


class Admin:
    """The stubs of one service, and the calls that tests make often."""

    def __init__(self, address: str) -> None:
        self._channel = grpc.insecure_channel(address, _SOON_AGAIN)
        self.keys = keys_pb2_grpc.KeysServiceStub(self._channel)
        self.logs = logs_pb2_grpc.LogsServiceStub(self._channel)
        self.workflows = workflows_pb2_grpc.WorkflowsServiceStub(self._channel)
        self.runs = runs_pb2_grpc.RunsServiceStub(self._channel)
        self.schedules = schedules_pb2_grpc.SchedulesServiceStub(self._channel)
        self.users = users_pb2_grpc.UsersServiceStub(self._channel)
        self.uploads = uploads_pb2_grpc.UploadsServiceStub(self._channel)
        self.usage = usage_pb2_grpc.UsageServiceStub(self._channel)
        self.webhooks = webhooks_pb2_grpc.WebhooksServiceStub(self._channel)
        self.environments = environments_pb2_grpc.EnvironmentsServiceStub(self._channel)
        self.audit = audit_pb2_grpc.AuditServiceStub(self._channel)
        self.deployment = deployment_pb2_grpc.DeploymentServiceStub(self._channel)

    def close(self) -> None:
        self._channel.close()

    def create_key(
        self,
        *,
        name: str = "contract test",
        scopes: Sequence[str] = SCOPES,
        workflow_ids: Sequence[str] | None = None,
        source_allow_list: Sequence[str] = (),
        hours: tuple[int, int] | None = None,
        rate_limit_rpm: int = 10_000,
        daily_run_quota: int = 100_000,
        max_concurrent_runs: int = 100,
        deployment_id: str | None = None,
    ) -> Credentials:
        """Creates a key, by default with every scope and the highest limits."""
        allowed = keys_pb2.AllowedHours(start_hour=hours[0], end_hour=hours[1]) if hours else None
        made = self.keys.CreateKey(
            keys_pb2.CreateKeyRequest(
                name=name,
                scopes=[scope_number(scope) for scope in scopes],
                workflow_access=workflow_access(workflow_ids),
                source_allow_list=source_allow_list,
                allowed_hours=allowed,
                rate_limit_rpm=rate_limit_rpm,
                daily_run_quota=daily_run_quota,
                max_concurrent_runs=max_concurrent_runs,
                deployment_id=deployment_id,
            )
        )
        return Credentials(made.record.key.key_id, made.key_value, made.external_id)

    def add_user(self, name: str, role: users_pb2.Role.ValueType) -> str:
        """Adds a console user and returns the generated password."""
        return self.users.CreateUser(users_pb2.CreateUserRequest(name=name, role=role)).password

    def apply(
        self, content: str, name: str = "contract.yaml", attached: Mapping[str, bytes] | None = None
    ) -> dict[str, str]:
        """Applies manifests with their files, and returns the ids of their workflows by name."""
        given = [workflows_pb2.AttachedFile(path=path, content=each) for path, each in (attached or {}).items()]
        files = [workflows_pb2.ManifestFile(name=name, content=content, attached_files=given)]
        applied = self.workflows.ApplyManifests(workflows_pb2.ApplyManifestsRequest(files=files))
        return {item.name: item.id for item in applied.items if item.kind == "Workflow"}

    def apply_test_workflows(self) -> dict[str, str]:
        return self.apply(MANIFESTS.read_text(), MANIFESTS.name)

    def decide(self, approval_id: str, *, approve: bool, comment: str | None = None) -> None:
        request = runs_pb2.DecideApprovalRequest(approval_id=approval_id, approve=approve, comment=comment)
        self.runs.DecideApproval(request)

    def set_workflow_status(self, workflow: str, *, active: bool) -> None:
        status = workflows_pb2.WORKFLOW_STATUS_ACTIVE if active else workflows_pb2.WORKFLOW_STATUS_INACTIVE
        self.workflows.UpdateWorkflowStatus(workflows_pb2.UpdateWorkflowStatusRequest(workflow=workflow, status=status))


def workflow_access(workflow_ids: Sequence[str] | None) -> keys_pb2.WorkflowAccess:
    """Returns access to all active workflows for None, else to the listed ones."""
    if workflow_ids is None:
        return keys_pb2.WorkflowAccess(mode=keys_pb2.WorkflowAccess.MODE_ALL_ACTIVE)
    return keys_pb2.WorkflowAccess(mode=keys_pb2.WorkflowAccess.MODE_EXPLICIT, workflow_ids=workflow_ids)
