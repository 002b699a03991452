"""Puts the backend together; the one place where its parts are wired."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import grpc
from google.protobuf.descriptor import FileDescriptor

from backend import metrics
from backend.clock import Clock, system_clock
from backend.cursors import Cursors
from backend.deployment import sql as deployment_sql
from backend.deployment.servicer import DeploymentServicer
from backend.graphs.graphs import Graphs
from backend.key_changes import KeyChanges
from backend.keys.servicer import KeysServicer
from backend.models.catalog import Models
from backend.outputs.servicer import OutputsServicer
from backend.redaction.process.redactor import Redactor
from backend.rpc.access import Access
from backend.rpc.interceptors import Handler, handlers_of
from backend.rpc.server import GrpcServer
from backend.runs.servicer import RunsServicer
from backend.runtime.execution.executor import Execution
from backend.runtime.publishing import Publisher
from backend.runtime.publishing.files import stored_outputs
from backend.runtime.publishing.parsing import FileParser
from backend.runtime.publishing.sweeping import by_policy
from backend.runtime.runtime import LocalRuntime
from backend.runtime.scheduling.backlog import Backlog
from backend.schemas.judge import SchemaJudge
from backend.services import Services
from backend.settings import BackendSettings
from backend.storage.database import Database
from backend.storage.dialects.postgresql.shared_clock import SharedClock
from backend.storage.factory import DataFolder, open_postgresql
from backend.storage.objects import open_objects
from backend.users.servicer import UsersServicer
from backend.workflows.servicer import WorkflowsServicer
from telemetry import Family
from workflow_api.v1 import deployment_pb2, keys_pb2, outputs_pb2, runs_pb2, users_pb2, workflows_pb2

if TYPE_CHECKING:
    from backend.runtime.remote import RemoteRuntime

GRACE_SECONDS: Final = 20.0


class _Parts:
    """What a process opens before it can serve or execute anything."""

    def __init__(self, settings: BackendSettings, clock: Clock | None) -> None:
        with ExitStack() as undo:
            self.folder = DataFolder(settings.data)
            undo.callback(self.folder.close)
            self.objects = open_objects(settings.objects, settings.objects.folder or settings.data / "objects")
            self.database: Database = (
                self.folder.open_database()
                if settings.database is None
                else open_postgresql(settings.database, settings.database_connections)
            )
            undo.callback(self.database.close)
            deployment = self.database.write(lambda tx: deployment_sql.ensure(tx, settings.deployment_id))
            self._shared_clock = None if settings.database is None or clock else SharedClock(self.database)
            undo.pop_all()
        models = Models(settings.secrets, settings.models)
        self.services = Services(
            database=self.database,
            clock=clock or self._shared_clock or system_clock,
            deployment_id=deployment.deployment_id,
            cursors=Cursors(bytes.fromhex(deployment.cursor_secret)),
            secrets=settings.secrets,
            model_providers=models.callable_providers,
            schemas=SchemaJudge(settings.schema_bounds),
        )
        self._backlog = Backlog(self.services)
        # A folder of a graph is one process's alone.
        graphs = settings.data / "graphs" if settings.engine == "local" else None
        self.graphs = Graphs(graphs, settings.secrets)
        self.redactor = Redactor(models, limits=settings.redaction, scratch=settings.data / "redaction")
        outputs, sweep = stored_outputs(self.database, self.objects), by_policy(self.database, self.redactor)
        parser = FileParser(settings.publishing, settings.data / "publishing")
        self.publisher = Publisher(self.database, self.services.clock, self.graphs, outputs, parser, sweep)

    def measured(self) -> list[Family]:
        """What this process has counted, and what there is to do in the deployment; from any thread."""
        return [*metrics.counted(), *self.database.measured(), *self._backlog.measured()]

    def close(self) -> None:
        """Lets go of all of it, the folder last."""
        self._backlog.close()
        self.services.schemas.close()
        self.graphs.close()
        if self._shared_clock is not None:
            self._shared_clock.stop()
        self.database.close()
        self.folder.close()


class Worker:
    """A process that executes the runs of others, and serves nothing."""

    def __init__(self, settings: BackendSettings) -> None:
        self._parts = parts = _Parts(settings, None)
        self._execution = Execution(
            settings, parts.services, parts.objects, parts.publisher, parts.redactor, on_free=lambda: None
        )

    def start(self) -> None:
        """Takes segments from the queue. Raises as `Execution.start`."""
        self._execution.start()

    def measured(self) -> list[Family]:
        """What an operator may know of it; from any thread."""
        return [*self._parts.measured(), *self._execution.measured()]

    def stop(self) -> None:
        """Takes none any more, and lets steps go on for the grace of the settings."""
        self._execution.stop()
        self._parts.close()


class Backend:
    """Every domain service on one database, with the runtime that makes runs go."""

    def __init__(self, settings: BackendSettings, clock: Clock | None = None) -> None:
        self._parts = parts = _Parts(settings, clock)
        services, objects = parts.services, parts.objects
        self._database = parts.database
        self._changes = changes = KeyChanges()
        self._runtime = _runtime(settings, parts)
        self._identities = settings.identities
        self._server: GrpcServer | None = None
        servicers: tuple[tuple[FileDescriptor, object], ...] = (
            (deployment_pb2.DESCRIPTOR, DeploymentServicer(services, changes)),
            (keys_pb2.DESCRIPTOR, KeysServicer(services, changes, settings.watch_poll_seconds)),
            (workflows_pb2.DESCRIPTOR, WorkflowsServicer(services, parts.graphs)),
            (runs_pb2.DESCRIPTOR, RunsServicer(services, self._runtime)),
            (outputs_pb2.DESCRIPTOR, OutputsServicer(services, objects)),
            (users_pb2.DESCRIPTOR, UsersServicer(services, settings.users_limit)),
        )
        # A read of a database elsewhere waits for the wire: it is none for an event loop.
        embedded = settings.database is None
        self.handlers: Mapping[str, Handler] = {
            path: replace(handler, point_read=handler.point_read and embedded)
            for file, servicer in servicers
            for service in file.services_by_name.values()
            for path, handler in handlers_of(servicer, service).items()
        }

    def start(self) -> None:
        """Starts the runtime: what an earlier process left running is orphaned before anything new runs."""
        self._runtime.start()

    def serve_grpc(self, address: str, credentials: grpc.ServerCredentials | None = None) -> int:
        """Serves gRPC and returns the port; see `GrpcServer`. With credentials, callers have what `identities` say."""
        rpcs = {rpc: handler.access for rpc, handler in self.handlers.items()}
        access = None if credentials is None else Access(rpcs, self._identities)
        self._server = GrpcServer(self.handlers, self._database, address, credentials, access)
        self._server.start()
        return self._server.port

    def measured(self) -> list[Family]:
        """What an operator may know of it; from any thread."""
        return [*self._parts.measured(), *self._runtime.measured()]

    def stop(self) -> None:
        """Stops in the order in which nothing acknowledged is lost: calls, runtime, database."""
        if self._server is not None:
            self._server.stop(GRACE_SECONDS, self._changes.end)
        self._runtime.stop()
        self._parts.close()


def _runtime(settings: BackendSettings, parts: _Parts) -> "LocalRuntime | RemoteRuntime":
    if settings.database is not None and settings.engine == "dbos":
        from backend.runtime.remote import RemoteRuntime

        return RemoteRuntime(settings, settings.database, parts.services, parts.objects, parts.publisher)
    return LocalRuntime(settings, parts.services, parts.objects, parts.publisher, parts.redactor)
