"""DeploymentService over gRPC: health, and the deployment record with its changes."""

import grpc

from backend.common.clock import DAY_MS
from backend.common.waits import KeyChanges
from backend.rpc.callers import principal_of
from backend.services.audit import sql as audit
from backend.services.dependencies import Services
from backend.services.deployment import sql
from backend.storage.database import Tx
from backend.storage.tables.deployment import DeploymentRow
from contract.times import milliseconds_of, to_duration
from contract.versions import API_VERSION
from workflow_api.v1 import deployment_pb2, deployment_pb2_grpc

_FLAGS = ("governed", "api_enabled")
_HOLD_COLUMNS = ("licence_reason", "licence_enforcement_status")


class DeploymentServicer(deployment_pb2_grpc.DeploymentServiceServicer):
    """Reads and changes the deployment record."""

    def __init__(self, services: Services, changes: KeyChanges) -> None:
        self._services = services
        self._changes = changes

    def GetHealth(
        self, request: deployment_pb2.GetHealthRequest, context: grpc.ServicerContext
    ) -> deployment_pb2.Health:
        """Returns whether keys are accepted."""
        row = self._services.database.read(sql.get)
        served = row.governed and row.api_enabled
        return deployment_pb2.Health(
            status=deployment_pb2.Health.STATUS_OK if served else deployment_pb2.Health.STATUS_DISABLED,
            deployment_id=row.deployment_id,
            api_version=API_VERSION,
        )

    def GetDeployment(
        self, request: deployment_pb2.GetDeploymentRequest, context: grpc.ServicerContext
    ) -> deployment_pb2.Deployment:
        """Returns the deployment record."""
        return self._message(self._services.database.read(sql.get))

    def UpdateDeployment(
        self, request: deployment_pb2.UpdateDeploymentRequest, context: grpc.ServicerContext
    ) -> deployment_pb2.Deployment:
        """Changes every field that is set, audits the change and notifies the edges."""
        changes = {field.name: value for field, value in request.ListFields() if field.name != "retention"}
        if request.HasField("retention"):
            changes["retention_days"] = milliseconds_of(request.retention) // DAY_MS
        columns = {name: int(value) if name in _FLAGS else value for name, value in changes.items()}
        if columns.get("licence_state") == "active":
            # The reason of a hold ends with the hold.
            columns = dict.fromkeys(_HOLD_COLUMNS) | columns
        actor = principal_of(context).audit_name

        def work(tx: Tx) -> DeploymentRow:
            former = sql.get(tx)
            row = sql.change(tx, columns)
            at = self._services.clock()
            before = {
                name: bool(value) if name in _FLAGS else value
                for name, value in former._asdict().items()
                if name in changes
            }
            details = {**changes, "before": before}
            audit.record(tx, at=at, actor=actor, action="deployment.changed", target=row.deployment_id, details=details)
            tx.after_commit(self._changes.notify)
            return row

        return self._message(self._services.database.write(work))

    def _message(self, row: DeploymentRow) -> deployment_pb2.Deployment:
        return deployment_pb2.Deployment(
            deployment_id=row.deployment_id,
            release=self._services.release,
            governed=bool(row.governed),
            api_enabled=bool(row.api_enabled),
            licence=deployment_pb2.Licence(
                state=row.licence_state,
                reason=row.licence_reason,
                enforcement_status=row.licence_enforcement_status,
                license_id=row.license_id,
            ),
            retention=to_duration(row.retention_days * DAY_MS),
        )
