"""Puts the backend together; the one place where its parts are wired."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import grpc
from google.protobuf.descriptor import FileDescriptor

from backend.access import Access
from backend.clock import Clock, system_clock
from backend.cursors import Cursors
from backend.deployment import store as deployment_store
from backend.deployment.servicer import DeploymentServicer
from backend.graphs.graphs import Graphs
from backend.grpc_server import GrpcServer
from backend.interceptors import Handler, handlers_of
from backend.key_changes import KeyChanges
from backend.keys.servicer import KeysServicer
from backend.outputs.servicer import OutputsServicer
from backend.runs.servicer import RunsServicer
from backend.runtime.models import Models
from backend.runtime.publishing import Publisher
from backend.runtime.publishing.files import stored_outputs
from backend.runtime.publishing.sweeping import by_policy
from backend.runtime.redactor import Redactor
from backend.runtime.runtime import LocalRuntime
from backend.services import Services
from backend.settings import BackendSettings
from backend.storage.database import Database
from backend.storage.objects import ObjectStoreError, open_objects
from backend.storage.opening import DataFolder, DataFolderError, open_postgresql
from backend.workflows.servicer import WorkflowsServicer
from workflow_api.v1 import deployment_pb2, keys_pb2, outputs_pb2, runs_pb2, workflows_pb2

_GRACE_SECONDS: Final = 5.0


class Backend:
    """Every domain service on one database, with the runtime that makes runs go."""

    def __init__(self, settings: BackendSettings, clock: Clock = system_clock) -> None:
        self._folder = DataFolder(settings.data)
        try:
            objects = open_objects(settings.objects, settings.data / "objects")
        except ObjectStoreError:
            self._folder.close()
            raise
        try:
            self._database: Database = (
                self._folder.open_database()
                if settings.database is None
                else open_postgresql(settings.database, settings.database_connections)
            )
        except DataFolderError:
            self._folder.close()
            raise
        deployment = self._database.write(lambda tx: deployment_store.ensure(tx, settings.deployment_id))
        services = Services(
            database=self._database,
            clock=clock,
            deployment_id=deployment.deployment_id,
            cursors=Cursors(bytes.fromhex(deployment.cursor_secret)),
            secrets=settings.secrets,
        )
        changes = KeyChanges()
        self._graphs = graphs = Graphs(settings.data / "graphs", settings.secrets)
        redactor = Redactor(Models(settings.secrets, settings.models))
        outputs, sweep = stored_outputs(self._database, objects), by_policy(self._database, redactor)
        publisher = Publisher(self._database, clock, graphs, outputs, sweep)
        self._runtime = LocalRuntime(settings, services, objects, publisher, redactor)
        self._identities = settings.identities
        self._server: GrpcServer | None = None
        servicers: tuple[tuple[FileDescriptor, object], ...] = (
            (deployment_pb2.DESCRIPTOR, DeploymentServicer(services, changes)),
            (keys_pb2.DESCRIPTOR, KeysServicer(services, changes, settings.watch_poll_seconds)),
            (workflows_pb2.DESCRIPTOR, WorkflowsServicer(services, graphs)),
            (runs_pb2.DESCRIPTOR, RunsServicer(services, self._runtime, self._runtime.removals)),
            (outputs_pb2.DESCRIPTOR, OutputsServicer(services, objects)),
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

    def stop(self) -> None:
        """Stops in the order in which nothing acknowledged is lost: calls, runtime, database."""
        if self._server is not None:
            self._server.stop(_GRACE_SECONDS)
        self._runtime.stop()
        self._graphs.close()
        self._database.close()
        self._folder.close()
