"""Wires the parts of the backend, those of the runtime by `backend.runtime.bootstrap`."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import grpc
from google.protobuf.descriptor import FileDescriptor

from backend.common import metrics, workflow_metrics
from backend.common.clock import Clock, system_clock
from backend.common.paging import Cursors
from backend.common.waits import KeyChanges
from backend.isolation.sandbox import Sandbox
from backend.resources.graphs.graphs import Graphs
from backend.resources.models import Models
from backend.resources.redaction.confined_redactor import ConfinedRedactor
from backend.resources.schemas.validator import SchemaValidator
from backend.rpc import batch_reads
from backend.rpc.answer_cache import AnswerCache
from backend.rpc.batch_reads import BatchReads
from backend.rpc.callers import CallingKeys
from backend.rpc.interceptors import Handler, handlers_of
from backend.runtime.bootstrap import (
    new_executor,
    new_local_runtime,
    new_package_store,
    new_publisher,
    new_remote_runtime,
)
from backend.runtime.local import LocalRuntime
from backend.services.audit import sql as audit_sql
from backend.services.audit.servicer import AuditServicer
from backend.services.dependencies import Services
from backend.services.deployment import sql as deployment_sql
from backend.services.deployment.servicer import DeploymentServicer
from backend.services.health.finding_notifications import FindingNotifier
from backend.services.health.reporter import ProcessReporter
from backend.services.health.servicer import DeploymentHealthServicer
from backend.services.keys import sql as keys_sql
from backend.services.keys import usage_sql
from backend.services.keys.edge_servicer import EdgeServicer
from backend.services.keys.servicer import CallerServicer, KeysServicer, UsageServicer
from backend.services.live_edges import LiveEdges
from backend.services.logs import sql as logs_sql
from backend.services.logs.servicer import Logs, LogsServicer
from backend.services.model_usage import sql as model_usage_sql
from backend.services.model_usage.servicer import ModelUsageServicer
from backend.services.notifications import sql as notifications_sql
from backend.services.notifications.notifier import Notifier
from backend.services.outputs.servicer import OutputsServicer
from backend.services.previews.servicer import Previews, PreviewsServicer
from backend.services.reviews.servicer import Reviews, ReviewsServicer
from backend.services.run_changes import RunChanges
from backend.services.runs import erasure
from backend.services.runs.backlog import Backlog
from backend.services.runs.figures import RunDays
from backend.services.runs.resume.follow_up import InterruptedRuns
from backend.services.runs.resume.service import RunResumer
from backend.services.runs.servicer import RunListsServicer, RunsServicer
from backend.services.runs.start.service import RunStarter
from backend.services.schedules.runner import ScheduleRunner
from backend.services.schedules.servicer import SchedulesServicer
from backend.services.uploads.servicer import UploadsServicer
from backend.services.uploads.staging import Uploads
from backend.services.users import sign_in
from backend.services.users.oidc.sign_in import provider_sign_ins
from backend.services.users.passwords import Passwords
from backend.services.users.permissions import RoleGuard
from backend.services.users.servicer import PasskeysServicer, SessionsServicer, UsersServicer
from backend.services.users.sign_in import SignIns
from backend.services.webhooks import sql as webhooks_sql
from backend.services.webhooks.deliverer import Deliverer
from backend.services.webhooks.servicer import WebhooksServicer
from backend.services.workflows import deletion
from backend.services.workflows.definitions_servicer import DefinitionsServicer
from backend.services.workflows.environments_servicer import EnvironmentsServicer
from backend.services.workflows.servicer import WorkflowsServicer
from backend.settings import BackendSettings
from backend.storage.database import Database
from backend.storage.factory import DataFolder, open_postgresql
from backend.storage.objects import open_objects
from backend.storage.objects.in_rows import ObjectsWithRows
from backend.storage.retention import RetentionJob
from telemetry import Family
from telemetry import tracing as traces
from workflow_api.v1 import (
    audit_pb2,
    caller_pb2,
    definitions_pb2,
    deployment_health_pb2,
    deployment_pb2,
    edge_pb2,
    environments_pb2,
    keys_pb2,
    logs_pb2,
    model_usage_pb2,
    outputs_pb2,
    passkeys_pb2,
    previews_pb2,
    reviews_pb2,
    run_lists_pb2,
    runs_pb2,
    schedules_pb2,
    sessions_pb2,
    uploads_pb2,
    usage_pb2,
    users_pb2,
    webhooks_pb2,
    workflows_pb2,
)

if TYPE_CHECKING:
    from backend.rpc.server import GrpcServer
    from backend.runtime.remote import RemoteRuntime
    from backend.storage.dialects.postgresql.shared_clock import SharedClock

GRACE_SECONDS: Final = 20.0


class _Parts:
    """Dependencies that serving and executing processes share."""

    def __init__(self, settings: BackendSettings, clock: Clock | None, schemas: SchemaValidator | None = None) -> None:
        with ExitStack() as undo:
            self.folder = DataFolder(settings.data)
            undo.callback(self.folder.close)
            objects = open_objects(settings.objects, settings.objects.folder or settings.data / "objects")
            self.database: Database = (
                self.folder.open_database()
                if settings.database is None
                else open_postgresql(settings.database, settings.database_connections, ends_blocking_sessions=True)
            )
            undo.callback(self.database.close)
            tracing = traces.active()
            if tracing is not None:
                from backend.storage.objects.instrumented import TracedObjects
                from backend.storage.traced_database import TracedDatabase

                self.database, objects = TracedDatabase(self.database, tracing), TracedObjects(objects, tracing)
            self.objects = ObjectsWithRows(objects, self.database)
            deployment = self.database.write(lambda tx: deployment_sql.get_or_create(tx, settings.deployment_id))
            self._shared_clock = None if settings.database is None or clock else _shared_clock(self.database)
            undo.pop_all()
        models = Models(settings.secrets, settings.models)
        self.services = Services(
            database=self.database,
            clock=clock or self._shared_clock or system_clock,
            deployment_id=deployment.deployment_id,
            cursors=Cursors(bytes.fromhex(deployment.cursor_secret)),
            secrets=settings.secrets,
            model_providers=models.callable_providers,
            network=settings.network,
            mcp_hosts=frozenset(settings.mcp_hosts),
            schemas=schemas or SchemaValidator(settings.schema_bounds),
        )
        self._by_workflow = settings.workflow_metrics
        self._backlog = Backlog(self.services, by_workflow=self._by_workflow)
        # The folder of a graph can be opened by one process only.
        graphs = settings.data / "graphs" if settings.engine == "local" else None
        self.graphs = Graphs(graphs, settings.secrets)
        self.redactor = ConfinedRedactor(models, limits=settings.redaction, scratch=settings.data / "redaction")
        self.packages = new_package_store(settings)
        self.publisher = new_publisher(settings, self.services, self.objects, self.graphs, self.redactor)

    def new_reporter(self, settings: BackendSettings, part: str, edges: LiveEdges | None = None) -> ProcessReporter:
        """Returns what reports that this process is there."""
        objects = (settings.objects.folder or settings.data) if settings.objects.store == "folder" else None
        shares_clock = self._shared_clock is not None
        return ProcessReporter(self.services, part, settings.data, objects, shares_clock=shares_clock, edges=edges)

    def measured(self) -> list[Family]:
        """Returns the metrics of this process, and of the work that waits in the deployment; from any thread."""
        named = workflow_metrics.counted() if self._by_workflow else ()
        return [*metrics.counted(), *named, *self.database.measured(), *self._backlog.measured()]

    def close(self) -> None:
        """Closes all of it, the folder last."""
        self._backlog.close()
        self.packages.close()
        self.redactor.close()
        self.services.schemas.close()
        self.graphs.close()
        if self._shared_clock is not None:
            self._shared_clock.stop()
        self.database.close()
        self.folder.close()


class Worker:
    """A process that executes runs and has no server."""

    def __init__(self, settings: BackendSettings) -> None:
        self._parts = parts = _Parts(settings, None)
        self._reporter = parts.new_reporter(settings, "worker")
        self._executor = new_executor(
            settings, parts.services, parts.objects, parts.publisher, parts.redactor, parts.packages
        )

    def start(self) -> None:
        """Takes segments from the queue. Raises as `Executor.start`."""
        self._executor.start(on_free=lambda: None)
        self._reporter.start()

    def measured(self) -> list[Family]:
        """Returns its metrics; from any thread."""
        return [*self._parts.measured(), *self._executor.measured(), *self._reporter.measured()]

    def stop(self) -> None:
        """Takes no more segments, and lets steps go on for the grace of the settings."""
        self._executor.stop()
        self._reporter.stop()
        self._parts.close()


class Backend:
    """All domain services on one database, with the runtime that executes runs.

    Before `start` it answers calls and executes nothing. `services` and `objects` are what its servicers share.
    `open_sandbox` gives a runtime in this process another sandbox than that of the settings; `schemas` validates in
    place of processes of this backend.
    """

    def __init__(
        self,
        settings: BackendSettings,
        clock: Clock | None = None,
        *,
        open_sandbox: Callable[[], Sandbox] | None = None,
        schemas: SchemaValidator | None = None,
    ) -> None:
        self._parts = parts = _Parts(settings, clock, schemas)
        services, objects = parts.services, parts.objects
        self.services, self.objects = services, objects
        self._database = parts.database
        self._changes = changes = KeyChanges()
        self._run_changes = RunChanges(parts.database)
        upkeep = RetentionJob(services.database, services.clock)
        self._runtime = _runtime(settings, parts, upkeep, open_sandbox)
        self._logs = Logs(services, objects)
        self._reviews = Reviews(services, objects, parts.redactor, settings.data / "reviews")
        self._previews = Previews(services, objects, parts.redactor, settings.data / "previews")
        disks = () if settings.objects.folder is None else (settings.objects.folder,)
        self._uploads = Uploads(services, objects, settings.data / "uploads", disks)
        self._run_days = RunDays(services)
        self._deliverer = Deliverer(services.database, services.clock, settings.webhooks)
        # A deployment for one command leaves the targets of the service alone.
        self._notifier = Notifier(services, settings.notifications) if settings.schedules else None
        has_targets = self._notifier is not None and bool(settings.notifications.targets)
        self._finding_notifier = FindingNotifier(services) if has_targets else None
        starter = RunStarter(services, self._runtime)
        self._schedules = ScheduleRunner(services, starter) if settings.schedules else None
        resumer = RunResumer(services, starter, self._uploads)
        self._interrupted = InterruptedRuns(services, resumer) if settings.schedules else None
        edges = LiveEdges(services.clock)
        self._reporter = parts.new_reporter(settings, "backend", edges)
        self._identities = settings.identities
        self._server: GrpcServer | None = None
        passwords = Passwords()
        guard = RoleGuard(parts.database)
        required = settings.administrators_need_passkey
        sign_ins = SignIns(services, passwords, administrators_need_passkey=required)
        reads = BatchReads()
        servicers: tuple[tuple[FileDescriptor, object], ...] = (
            (deployment_pb2.DESCRIPTOR, DeploymentServicer(services, changes)),
            (audit_pb2.DESCRIPTOR, AuditServicer(services)),
            (caller_pb2.DESCRIPTOR, CallerServicer(services)),
            (keys_pb2.DESCRIPTOR, KeysServicer(services, changes)),
            (usage_pb2.DESCRIPTOR, UsageServicer(services)),
            (model_usage_pb2.DESCRIPTOR, ModelUsageServicer(services)),
            (
                deployment_health_pb2.DESCRIPTOR,
                DeploymentHealthServicer(
                    services,
                    upkeep,
                    settings.models,
                    "sqlite" if settings.database is None else "postgresql",
                    settings.objects.store,
                    needs_workers=settings.engine == "dbos",
                    notifier=self._notifier,
                ),
            ),
            (
                edge_pb2.DESCRIPTOR,
                EdgeServicer(services, changes, settings.watch_poll_seconds, self._run_changes, reads.answer, edges),
            ),
            (workflows_pb2.DESCRIPTOR, WorkflowsServicer(services, parts.graphs, parts.packages)),
            (environments_pb2.DESCRIPTOR, EnvironmentsServicer(services)),
            (definitions_pb2.DESCRIPTOR, DefinitionsServicer(services)),
            (runs_pb2.DESCRIPTOR, RunsServicer(services, self._runtime, self._run_changes, self._uploads)),
            (schedules_pb2.DESCRIPTOR, SchedulesServicer(services, starter)),
            (run_lists_pb2.DESCRIPTOR, RunListsServicer(services, self._run_days)),
            (reviews_pb2.DESCRIPTOR, ReviewsServicer(self._reviews)),
            (logs_pb2.DESCRIPTOR, LogsServicer(self._logs)),
            (outputs_pb2.DESCRIPTOR, OutputsServicer(services, objects)),
            (previews_pb2.DESCRIPTOR, PreviewsServicer(self._previews)),
            (uploads_pb2.DESCRIPTOR, UploadsServicer(self._uploads)),
            (users_pb2.DESCRIPTOR, UsersServicer(services, passwords, settings.users_limit)),
            (
                sessions_pb2.DESCRIPTOR,
                SessionsServicer(services, sign_ins, provider_sign_ins(services, passwords, settings)),
            ),
            (passkeys_pb2.DESCRIPTOR, PasskeysServicer(services, passwords, sign_ins)),
            (webhooks_pb2.DESCRIPTOR, WebhooksServicer(services, settings.webhooks)),
        )
        runs_inline = not parts.database.remote
        database = parts.database
        keys = CallingKeys(lambda key_id: database.read(lambda tx: keys_sql.access(tx, key_id)) is not None, changes)
        marks = database.commit_marks
        answer_cache = None if marks is None else AnswerCache(marks, services.clock)
        self.handlers: Mapping[str, Handler] = {
            path: handler if runs_inline else replace(handler, runs_inline=None, page_read=False)
            for file, servicer in servicers
            for service in file.services_by_name.values()
            for path, handler in handlers_of(servicer, service, answer_cache, guard, keys.identify).items()
            if runs_inline or path != batch_reads.RPC
        }
        reads.serve(self.handlers)
        tracing = traces.active()
        if tracing is not None:
            from backend.rpc.traced_handlers import traced

            self.handlers = {path: traced(path, handler, tracing) for path, handler in self.handlers.items()}

    def start(self) -> None:
        """Starts the runtime; runs that an earlier process left running end as orphaned before anything new runs."""
        self._runtime.start()
        self._deliverer.start()
        if self._notifier is not None:
            self._notifier.start()
        if self._finding_notifier is not None:
            self._finding_notifier.start()
        self._reporter.start()
        if self._schedules is not None:
            self._schedules.start()
        if self._interrupted is not None:
            self._interrupted.start()

    def serve_grpc(
        self,
        address: str,
        credentials: grpc.ServerCredentials | None = None,
        certificate_expires_at: Callable[[], int | None] = lambda: None,
    ) -> int:
        """Serves gRPC and returns the port; see `GrpcServer`. With credentials, `identities` say who may call what.

        `certificate_expires_at` returns the end of the certificate that callers see, in milliseconds since the epoch.
        """
        from backend.rpc.access import Access
        from backend.rpc.server import GrpcServer

        rpcs = {rpc: handler.rules for rpc, handler in self.handlers.items()}
        access = None if credentials is None else Access(rpcs, self._identities)
        self._server = GrpcServer(self.handlers, self._database, address, credentials, access)
        self._server.start()
        self._reporter.certificate_expires_at = certificate_expires_at
        return self._server.port

    def ready(self) -> bool:
        """Returns whether it serves gRPC, and its database answers; from any thread."""
        return self._server is not None and self._server.ready()

    def measured(self) -> list[Family]:
        """Returns its metrics; from any thread."""
        return [*self._parts.measured(), *self._runtime.measured(), *self._reporter.measured()]

    def stop(self, grace_seconds: float = GRACE_SECONDS) -> None:
        """Stops calls, then the runtime, then the database, so that nothing acknowledged is lost.

        Open calls have the grace to finish.
        """
        if self._server is not None:
            self._server.stop(grace_seconds, self._end_streams)
        self._reviews.close()
        self._previews.close()
        self._uploads.close()
        self._run_days.close()
        if self._schedules is not None:
            self._schedules.stop()
        if self._interrupted is not None:
            self._interrupted.stop()
        self._runtime.stop()
        self._deliverer.stop()
        if self._notifier is not None:
            self._notifier.stop()
        if self._finding_notifier is not None:
            self._finding_notifier.stop()
        self._reporter.stop()
        self._parts.close()

    def _end_streams(self) -> None:
        self._changes.end()
        self._run_changes.end()
        self._logs.end()


def _shared_clock(database: Database) -> "SharedClock":
    from backend.storage.dialects.postgresql.shared_clock import SharedClock

    return SharedClock(database)


def _runtime(
    settings: BackendSettings, parts: _Parts, upkeep: RetentionJob, open_sandbox: Callable[[], Sandbox] | None
) -> "LocalRuntime | RemoteRuntime":
    """Makes the runtime, and registers the retention of every service with its upkeep."""
    services, objects, publisher = parts.services, parts.objects, parts.publisher
    runtime = (
        new_remote_runtime(settings, settings.database, services, objects, publisher, upkeep)
        if settings.database is not None and settings.engine == "dbos"
        else new_local_runtime(
            settings, services, objects, publisher, parts.redactor, parts.packages, upkeep, open_sandbox
        )
    )
    for rules in (
        erasure.rules(runtime),
        usage_sql.RETENTION,
        model_usage_sql.RETENTION,
        audit_sql.RETENTION,
        sign_in.RETENTION,
        deletion.RETENTION,
        logs_sql.RETENTION,
        webhooks_sql.RETENTION,
        notifications_sql.RETENTION,
    ):
        upkeep.register(*rules)
    return runtime
