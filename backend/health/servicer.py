"""DeploymentHealthService over gRPC."""

import json
from collections.abc import Mapping
from time import monotonic
from typing import Literal

import grpc
from google.protobuf.duration_pb2 import Duration

from backend.deployment import sql as deployment_sql
from backend.health import sql
from backend.health.findings import Figures, alive, findings
from backend.health.retention import retention_message
from backend.health.secret_use import secret_use
from backend.health.sql import ProcessRow, WorkerRow
from backend.runtime.scheduling.backlog_sql import BacklogRow, backlog
from backend.runtime.scheduling.upkeep import Upkeep
from backend.services import Services
from backend.settings import ModelProvider
from backend.storage.database import Tx
from contract.times import to_duration, to_timestamp
from workflow_api.v1 import deployment_health_pb2 as pb
from workflow_api.v1 import deployment_health_pb2_grpc

_SIZE_OF = {
    "sqlite": "SELECT (SELECT page_count FROM pragma_page_count) * (SELECT page_size FROM pragma_page_size)",
    "postgresql": "SELECT pg_database_size(current_database())",
}


class DeploymentHealthServicer(deployment_health_pb2_grpc.DeploymentHealthServiceServicer):
    """Shows how the deployment is.

    Args:
        models: Defaults by provider, which may name secrets.
        needs_workers: Whether other processes execute runs.
    """

    def __init__(
        self,
        services: Services,
        upkeep: Upkeep,
        models: Mapping[str, ModelProvider],
        database: Literal["sqlite", "postgresql"],
        object_store: Literal["folder", "s3"],
        *,
        needs_workers: bool,
    ) -> None:
        self._services = services
        self._upkeep = upkeep
        self._models = models
        self._database = database
        self._object_store = object_store
        self._needs_workers = needs_workers

    def GetDeploymentHealth(
        self, request: pb.GetDeploymentHealthRequest, context: grpc.ServicerContext
    ) -> pb.DeploymentHealth:
        """Reads all of it in one snapshot."""
        now = self._services.clock()
        # Workers renew their leases by the database's own time.
        lease_now = self._services.database.now()

        def work(tx: Tx) -> tuple[list[ProcessRow], list[WorkerRow], BacklogRow, int]:
            size = tx.connection.execute(_SIZE_OF[self._database]).fetchone()
            database_bytes = int(str(size[0])) if size else 0
            return sql.all_processes(tx), sql.all_workers(tx), backlog(tx, lease_now), database_bytes

        began = monotonic()
        processes, workers, row, size = self._services.database.snapshot(work)
        took = round((monotonic() - began) * 1000)
        figures = Figures(now, lease_now, processes, workers, row, took, self._needs_workers)
        return pb.DeploymentHealth(
            checked_at=to_timestamp(now),
            findings=[
                pb.HealthFinding(topic=each.topic, critical=each.critical, message=each.message, remedy=each.remedy)
                for each in findings(figures)
            ],
            processes=[_process(each, now) for each in processes],
            leases=[_lease(each) for each in workers],
            pending=_pending(row, now),
            database=self._database,
            database_bytes=size,
            database_took=to_duration(took),
            object_store=self._object_store,
        )

    def GetRetention(self, request: pb.GetRetentionRequest, context: grpc.ServicerContext) -> pb.Retention:
        """Returns the rules that the upkeep runs."""
        now = self._services.clock()
        days, oldest = self._services.database.snapshot(
            lambda tx: (deployment_sql.get(tx).retention_days, sql.oldest_finished(tx, now))
        )
        return retention_message(self._upkeep, days, oldest)

    def GetSecretUse(self, request: pb.GetSecretUseRequest, context: grpc.ServicerContext) -> pb.SecretUse:
        """Reads every secret, to say whether it can be read, and forgets it."""
        rows = self._services.database.read(sql.secrets_of_resources)
        return secret_use(self._services.secrets, rows, self._models)


def _process(row: ProcessRow, now: int) -> pb.DeploymentProcess:
    return pb.DeploymentProcess(
        process_id=row.process_id,
        part=row.part,
        host=row.host,
        pid=row.pid,
        release=row.release,
        started_at=to_timestamp(row.started_at),
        seen_at=to_timestamp(row.seen_at),
        alive=alive(row, now),
        clock_ahead=None if row.clock_ahead is None else _signed(row.clock_ahead),
        data=_space(row.data_total, row.data_free, row.data_filling),
        objects=_space(row.objects_total, row.objects_free, row.objects_filling),
        certificate_expires_at=None if row.certificate_expires_at is None else to_timestamp(row.certificate_expires_at),
        unusable_backends=json.loads(row.unusable_backends or "[]"),
    )


def _signed(milliseconds: int) -> Duration:
    duration = Duration()
    duration.FromMilliseconds(milliseconds)
    return duration


def _space(total: int | None, free: int | None, filling: int | None) -> pb.DiskSpace | None:
    if total is None or free is None:
        return None
    return pb.DiskSpace(total_bytes=total, free_bytes=free, filling_bytes_per_hour=filling or 0)


def _lease(row: WorkerRow) -> pb.WorkerLease:
    return pb.WorkerLease(
        owner=row.owner,
        host=row.host,
        started_at=to_timestamp(row.started_at),
        lease_until=to_timestamp(row.lease_until),
        step_slots=row.step_slots,
        draining=bool(row.draining),
    )


def _pending(row: BacklogRow, now: int) -> pb.PendingWork:
    waited = None if row.oldest_queued_at is None else to_duration(max(0, now - row.oldest_queued_at))
    return pb.PendingWork(
        runs_queued=row.runs_queued,
        runs_running=row.runs_running,
        runs_waiting_for_approval=row.runs_waiting_for_approval,
        segments_queued=row.segments_waiting + row.segments_handed_over,
        oldest_queued=waited,
        sweeps=row.sweeps,
        removals=row.removals_of_runs + row.removals_of_objects,
        publications=row.publications,
        webhook_deliveries=row.webhook_deliveries,
    )
