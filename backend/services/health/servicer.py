"""DeploymentHealthService over gRPC: processes, findings, secrets and retention, for operators."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from time import monotonic
from typing import Final, Literal

import grpc
from google.protobuf.duration_pb2 import Duration

from backend.common.clock import DAY_MS
from backend.common.errors import ApiError
from backend.common.paging import Paging
from backend.common.secrets import FILE, SecretError, Secrets
from backend.services.dependencies import Services
from backend.services.deployment import sql as deployment_sql
from backend.services.health import size_sql, sql
from backend.services.health.rules import HealthFigures, findings, is_alive
from backend.services.health.size_sql import NamedWorkflowRow
from backend.services.health.sql import ProcessRow, SecretRow, WorkerRow
from backend.services.notifications import sql as notifications_sql
from backend.services.notifications.notifier import Notifier
from backend.services.runs.backlog_sql import BacklogRow, backlog
from backend.services.runs.waiting_runs import OF_PEOPLE, Waiting, WaitingRuns, waiting_runs
from backend.services.workflows.sql import former_name
from backend.settings import ModelProvider, NotificationTarget
from backend.storage.database import Tx
from backend.storage.retention import RetentionJob
from backend.storage.tables.notifications import NotificationTargetRow
from contract.times import to_duration, to_timestamp
from workflow_api.v1 import deployment_health_pb2 as pb
from workflow_api.v1 import deployment_health_pb2_grpc, errors_pb2


def retention_message(upkeep: RetentionJob, days: int, oldest: int | None) -> pb.Retention:
    """Returns the retention schedules, from the deployment's `days` and the `oldest` finish of a run with data."""
    record_ms = days * DAY_MS
    return pb.Retention(
        schedules=[
            pb.RetentionSchedule(
                name=rule.name,
                kept=to_duration(record_ms if rule.kept_ms is None else rule.kept_ms),
                by_record=rule.kept_ms is None,
            )
            for rule in upkeep.rules
        ],
        next_round_at=to_timestamp(upkeep.next_round_at) if upkeep.next_round_at else None,
        next_run_at=None if oldest is None else to_timestamp(oldest + record_ms),
    )


def secret_use(
    secrets: Secrets,
    rows: Iterable[SecretRow],
    models: Mapping[str, ModelProvider],
    targets: Mapping[str, NotificationTarget],
) -> pb.SecretUse:
    """Returns the secrets that settings, resources, models and notifications name, and whether each can be read."""
    users: defaultdict[str, list[pb.SecretUser]] = defaultdict(list)
    for row in rows:
        for name in _named(row):
            users[name].append(pb.SecretUser(kind=row.kind, name=row.name, id=row.resource_id))
    for provider, defaults in sorted(models.items()):
        if defaults.api_key is not None:
            users[defaults.api_key].append(pb.SecretUser(kind="model_provider", name=provider))
    for target, settings in sorted(targets.items()):
        users[settings.url].append(pb.SecretUser(kind="notification", name=target))
    names = sorted({*secrets.names, *users})
    return pb.SecretUse(secrets=[_secret(secrets, name, users[name]) for name in names])


def _named(row: SecretRow) -> list[str]:
    single = [name for name in (row.secret, row.api_key) if name is not None]
    return list(dict.fromkeys([*single, *(json.loads(row.secrets) if row.secrets else ())]))


def _secret(secrets: Secrets, name: str, used_by: list[pb.SecretUser]) -> pb.NamedSecret:
    source = secrets.sources.get(name)
    if source is None:
        state, kept_in = pb.SECRET_STATE_MISSING, ""
    else:
        state, kept_in = pb.SECRET_STATE_UNREADABLE, "file" if source.startswith(FILE) else "environment"
    try:
        secrets.get(name)
    except SecretError as error:
        return pb.NamedSecret(name=name, state=state, problem=str(error), kept_in=kept_in, used_by=used_by)
    return pb.NamedSecret(name=name, state=pb.SECRET_STATE_SET, kept_in=kept_in, used_by=used_by)


_MOST_WAITING: Final = 10
_SIZE_OF = {
    "sqlite": "SELECT (SELECT page_count FROM pragma_page_count) * (SELECT page_size FROM pragma_page_size)",
    "postgresql": "SELECT pg_database_size(current_database())",
}


class DeploymentHealthServicer(deployment_health_pb2_grpc.DeploymentHealthServiceServicer):
    """Shows the health of the deployment.

    Args:
        models: Defaults by provider, which may name secrets.
        needs_workers: Whether separate worker processes execute runs.
        notifier: Sends test messages; None where operators are not notified.
    """

    def __init__(
        self,
        services: Services,
        upkeep: RetentionJob,
        models: Mapping[str, ModelProvider],
        database: Literal["sqlite", "postgresql"],
        object_store: Literal["folder", "s3"],
        *,
        needs_workers: bool,
        notifier: Notifier | None = None,
    ) -> None:
        self._services = services
        self._upkeep = upkeep
        self._models = models
        self._database = database
        self._object_store = object_store
        self._needs_workers = needs_workers
        self._notifier = notifier

    def GetDeploymentHealth(
        self, request: pb.GetDeploymentHealthRequest, context: grpc.ServicerContext
    ) -> pb.DeploymentHealth:
        """Returns the health of the deployment, read in one snapshot."""
        now = self._services.clock()
        # Workers renew their leases by the database's own time.
        lease_now = self._services.database.now()

        def targets(tx: Tx) -> list[pb.NotificationTargetState]:
            pending = notifications_sql.pending_of_targets(tx)
            return [_target(row, pending.get(row.name, 0)) for row in notifications_sql.targets(tx)]

        def work(tx: Tx) -> tuple[list[ProcessRow], list[WorkerRow], BacklogRow, WaitingRuns, int]:
            size = tx.connection.execute(_SIZE_OF[self._database]).fetchone()
            database_bytes = int(str(size[0])) if size else 0
            work = backlog(tx, lease_now), waiting_runs(tx, now)
            return sql.all_processes(tx), sql.all_workers(tx), *work, database_bytes

        began = monotonic()
        processes, workers, row, waiting, size = self._services.database.snapshot(work)
        took = round((monotonic() - began) * 1000)
        figures = HealthFigures(
            now, lease_now, processes, workers, row, took, self._needs_workers, waiting.longest_start_wait()
        )
        return pb.DeploymentHealth(
            checked_at=to_timestamp(now),
            findings=[
                pb.HealthFinding(topic=each.topic, critical=each.critical, message=each.message, remedy=each.remedy)
                for each in findings(figures)
            ],
            processes=[_process(each, now) for each in processes],
            leases=[_lease(each) for each in workers],
            pending=_pending(row, waiting, now),
            database=self._database,
            database_bytes=size,
            database_took=to_duration(took),
            object_store=self._object_store,
            notification_targets=self._services.database.read(targets),
        )

    def GetStartWait(self, request: pb.GetStartWaitRequest, context: grpc.ServicerContext) -> pb.StartWait:
        """Returns how long a run that a person starts now will probably wait."""
        now = self._services.clock()
        waiting = self._services.database.snapshot(lambda tx: waiting_runs(tx, now))
        oldest = None if waiting.oldest_at is None else max(0, now - waiting.oldest_at)
        return pb.StartWait(probable=_duration(waiting.start_wait(OF_PEOPLE)), oldest=_duration(oldest))

    def GetRetention(self, request: pb.GetRetentionRequest, context: grpc.ServicerContext) -> pb.Retention:
        """Returns the rules that the upkeep runs."""
        now = self._services.clock()
        days, oldest = self._services.database.snapshot(
            lambda tx: (deployment_sql.get(tx).retention_days, sql.oldest_finished(tx, now))
        )
        return retention_message(self._upkeep, days, oldest)

    def ListWorkflowSizes(
        self, request: pb.ListWorkflowSizesRequest, context: grpc.ServicerContext
    ) -> pb.ListWorkflowSizesResponse:
        """Returns what the runs of workflows take, from samples and counts that are bounded for each workflow."""
        paging = Paging(self._services.cursors, request)
        name, workflow_id = map(str, paging.after or ("", ""))

        def work(tx: Tx) -> pb.ListWorkflowSizesResponse:
            oldest = sql.oldest_finished(tx, self._services.clock())
            found = size_sql.workflows_after(tx, name, workflow_id, paging.rows_to_read)
            shown, token = paging.cut(found, lambda row: (row.name, row.workflow_id))
            return pb.ListWorkflowSizesResponse(
                items=[_workflow_size(tx, row, oldest) for row in shown], next_page_token=token
            )

        return self._services.database.snapshot(work)

    def GetSecretUse(self, request: pb.GetSecretUseRequest, context: grpc.ServicerContext) -> pb.SecretUse:
        """Returns the secrets in use, and whether each can be read; no value leaves this process."""
        rows = self._services.database.read(sql.secrets_of_resources)
        targets = {} if self._notifier is None else self._notifier.targets
        return secret_use(self._services.secrets, rows, self._models, targets)

    def SendTestNotification(
        self, request: pb.SendTestNotificationRequest, context: grpc.ServicerContext
    ) -> pb.SendTestNotificationResponse:
        """Sends a message to a target of the settings, and waits for the outcome."""
        if self._notifier is None or request.name not in self._notifier.targets:
            message = f"The settings have no notification target {request.name}."
            raise ApiError(errors_pb2.ERROR_REASON_NOT_FOUND, message)
        return pb.SendTestNotificationResponse(error=self._notifier.send_test(request.name) or "")


def _target(row: NotificationTargetRow, pending: int) -> pb.NotificationTargetState:
    return pb.NotificationTargetState(
        name=row.name,
        events=json.loads(row.events),
        delivered_at=None if row.delivered_at is None else to_timestamp(row.delivered_at),
        failed_at=None if row.failed_at is None else to_timestamp(row.failed_at),
        error=row.error,
        pending=pending,
    )


def _workflow_size(tx: Tx, row: NamedWorkflowRow, oldest: int | None) -> pb.WorkflowSize:
    """Estimates sizes from the newest runs; `oldest` is the finish of the oldest run with data, None without any."""
    size = pb.WorkflowSize(workflow_id=row.workflow_id, workflow_name=former_name(row.name))
    if oldest is None:
        return size
    run_ids, looked_at = size_sql.newest_with_data(tx, row.workflow_id, oldest)
    if not run_ids:
        return size
    ended = size_sql.ended_since(tx, row.workflow_id, oldest)
    counted = min(ended, size_sql.MOST_COUNTED)
    # Data of single runs may have been erased earlier.
    runs = round(counted * len(run_ids) / looked_at)
    object_bytes, database_bytes = size_sql.bytes_of(tx, run_ids)
    size.runs, size.sampled_runs, size.has_more_runs = runs, len(run_ids), ended > counted
    size.object_bytes = object_bytes * runs // len(run_ids)
    size.database_bytes = database_bytes * runs // len(run_ids)
    return size


def _process(row: ProcessRow, now: int) -> pb.DeploymentProcess:
    return pb.DeploymentProcess(
        process_id=row.process_id,
        part=row.part,
        host=row.host,
        pid=row.pid,
        release=row.release,
        started_at=to_timestamp(row.started_at),
        seen_at=to_timestamp(row.seen_at),
        alive=is_alive(row, now),
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


def _duration(milliseconds: int | None) -> Duration | None:
    return None if milliseconds is None else to_duration(milliseconds)


def _waiting(row: Waiting, next_wait: int | None = None) -> pb.WaitingRuns:
    oldest_since = to_timestamp(row.oldest_at)
    return pb.WaitingRuns(
        id=row.id, name=row.name, waiting=row.number, oldest_since=oldest_since, next_wait=_duration(next_wait)
    )


def _pending(row: BacklogRow, waiting: WaitingRuns, now: int) -> pb.PendingWork:
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
        by_workflow=[_waiting(each) for each in waiting.by_workflow()[:_MOST_WAITING]],
        by_key=[_waiting(each, waiting.start_wait(each.id)) for each in waiting.by_key()[:_MOST_WAITING]],
        start_wait=_duration(waiting.longest_start_wait()),
    )
