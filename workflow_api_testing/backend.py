"""The whole backend in memory, for tests of its callers."""

import functools
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import grpc
from google.protobuf.descriptor import ServiceDescriptor

from backend.bootstrap import Backend
from backend.common.deployment_terms import CheckBounds
from backend.resources.schemas.validator import SchemaValidator
from backend.rpc.access import Access
from backend.rpc.server import GrpcServer
from backend.settings import BackendSettings
from backend.storage.dialects.sqlite.database_file import prepare
from backend.storage.factory import DATABASE_FILE
from contract.metadata import ACTOR, KEY_ID, encode_actor
from workflow_api.v1 import keys_pb2, keys_pb2_grpc, options_pb2, workflows_pb2, workflows_pb2_grpc
from workflow_api_testing.calls import refusal_of, services, with_metadata
from workflow_api_testing.scripted_runs import ScriptedRuns, ScriptError

if TYPE_CHECKING:
    from workflow_api_testing.certificates import Authority


__all__ = ["Key", "ScriptError", "SteppedClock", "TestBackend", "test_backend"]

S = TypeVar("S")

_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - a folder that only this user can open is made below it
_ENOUGH_BYTES: Final = 256 * 2**20
_START_MS: Final = 1_790_000_000_000
_AGENT: Final = "scripted"
_ALL_SCOPES: Final = tuple(scope for scope in options_pb2.Scope.values() if scope)


class SteppedClock:
    """Clock of a backend under test; stands still until `advance` is called.

    `now` is in milliseconds since the epoch, and begins at 2026-09-21 14:13:20 UTC.
    """

    # Keeps pytest from collecting the class under a name that begins with `Test`.
    __test__ = False

    def __init__(self) -> None:
        self.now = _START_MS

    def __call__(self) -> int:
        """Returns the present time in milliseconds since the epoch."""
        return self.now

    def advance(self, *, seconds: float = 0, hours: float = 0, days: float = 0) -> None:
        """Moves the clock forward."""
        self.now += round((seconds + hours * 3_600 + days * 86_400) * 1_000)


class Key(NamedTuple):
    """An API key of a backend under test, with its bearer value; gRPC uses the id alone."""

    key_id: str
    value: str
    external_id: str


class TestBackend(ScriptedRuns):
    """Every service as in production, on a database in memory, with runs that move by `ScriptedRuns` methods.

    Attributes:
        clock: The clock of the services.
        data: The data folder, with the database unless a server holds it.
        composition: The backend itself, with handlers and shared objects of its servicers.
    """

    __test__ = False

    def __init__(self, settings: BackendSettings, folder: Path) -> None:
        self.clock = SteppedClock()
        self.data = settings.data
        self.composition = Backend(settings, self.clock, schemas=_shared_schema_validator(settings.schema_bounds))
        self._folder = folder
        self._identities = settings.identities
        self._channels: dict[str | None, grpc.Channel] = {}
        self._certified: GrpcServer | None = None
        super().__init__(self.composition.services, self.composition.objects)

    @functools.cached_property
    def address(self) -> str:
        """The address of the services, for code that opens a channel of its own; plain text, on this machine."""
        address = f"unix:{self._folder / 'grpc'}"
        self.composition.serve_grpc(address)
        return address

    @functools.cached_property
    def server(self) -> Any:
        """The services as `grpc_testing.server_from_dictionary` gives them, behind the interceptors of production."""
        import grpc_testing

        return grpc_testing.server_from_dictionary(self._servicers(), grpc_testing.strict_real_time())

    def stub(
        self,
        stub_class: Callable[[grpc.Channel], S],
        *,
        key: Key | str | None = None,
        actor: str | None = None,
        identity: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> S:
        """Returns a stub whose calls are made for a key, or without one as an internal caller.

        Args:
            stub_class: A generated class, as `RunsServiceStub`.
            key: The API key that the calls are made for, or its id.
            actor: The person or service that the calls are made for; by default `internal`.
            identity: The name in the caller's certificate, as `dns:billing`, which may do what the `identities` given
                to `test_backend` allow. Without an identity everything is allowed, as for calls on one machine.
            metadata: More metadata of each call.
        """
        given = dict(metadata or {})
        if key is not None:
            given[KEY_ID] = key if isinstance(key, str) else key.key_id
        if actor is not None:
            given[ACTOR] = encode_actor(actor)
        return stub_class(with_metadata(self._channel(identity), given))

    def add_key(
        self,
        name: str = "test",
        *,
        scopes: Sequence[options_pb2.Scope.ValueType] = _ALL_SCOPES,
        workflows: Sequence[str] | None = None,
        **fields: Any,
    ) -> Key:
        """Creates an API key.

        Args:
            name: Name of the key.
            scopes: Scopes of the key, by default all. Edges check scopes, the services do not.
            workflows: Ids of the workflows that the key may use; None for all active ones.
            fields: More fields of `CreateKeyRequest`, as `daily_run_quota`.
        """
        request = keys_pb2.CreateKeyRequest(name=name, scopes=scopes, **fields)
        if workflows is not None:
            request.workflow_access.mode = keys_pb2.WorkflowAccess.MODE_EXPLICIT
            request.workflow_access.workflow_ids.extend(workflows)
        made = self.stub(keys_pb2_grpc.KeysServiceStub).CreateKey(request)
        return Key(made.record.key.key_id, made.key_value, made.external_id)

    def add_workflow(
        self,
        name: str = "Test",
        *,
        parameters: Sequence[Mapping[str, Any]] = (),
        approvals: Sequence[str] = (),
        **fields: Any,
    ) -> str:
        """Creates an active workflow whose last step `work` gives the result; returns the workflow's id.

        Args:
            name: Name of the workflow.
            parameters: Declarations of parameters, as in a manifest.
            approvals: Titles of approvals that each run waits for before its last step.
            fields: More fields of the manifest, or replacements of these.
        """
        asked = [
            {"step": f"approval-{number}", "approval": {"title": title}} for number, title in enumerate(approvals, 1)
        ]
        work = {"step": "work", "agent": _AGENT, "needs": [step["step"] for step in asked]}
        agent = {"kind": "Agent", "name": _AGENT, "type": "python", "code": "def run(context):\n    return None\n"}
        workflow = {
            "kind": "Workflow",
            "name": name,
            "status": "active",
            "parameters": list(parameters),
            "steps": [*asked, work],
            "result": {"step": "work"},
            **fields,
        }
        return self.apply("\n---\n".join(json.dumps(each) for each in (agent, workflow)))[name]

    def apply(self, manifests: str) -> dict[str, str]:
        """Applies manifests in YAML, as `workflow-api apply` does; returns the ids of workflows by name.

        Raises:
            ScriptError: the manifests are not valid; the message has every problem.
        """
        file = workflows_pb2.ManifestFile(name="test.yaml", content=manifests)
        stub = self.stub(workflows_pb2_grpc.WorkflowsServiceStub)
        try:
            applied = stub.ApplyManifests(workflows_pb2.ApplyManifestsRequest(files=[file]))
        except grpc.RpcError as error:
            refusal = refusal_of(error)
            problems = [f"{field} {why}" for field, why in refusal.fields.items()]
            raise ScriptError(" ".join([refusal.message, *problems])) from error
        return {item.name: item.id for item in applied.items if item.kind == "Workflow"}

    def close(self) -> None:
        """Ends every call and closes the backend."""
        for channel in self._channels.values():
            channel.close()
        if self._certified is not None:
            self._certified.stop(0)
        self.composition.stop(grace_seconds=0)

    @functools.cached_property
    def _authority(self) -> "Authority":
        # Imported and made at first use, because most tests need no certificate.
        from workflow_api_testing.certificates import Authority

        return Authority()

    def _channel(self, identity: str | None) -> grpc.Channel:
        if identity not in self._channels:
            self._channels[identity] = (
                grpc.insecure_channel(self.address) if identity is None else self._certified_channel(identity)
            )
        return self._channels[identity]

    def _certified_channel(self, identity: str) -> grpc.Channel:
        from workflow_api_testing.certificates import SERVER_NAME

        if self._certified is None:
            handlers, database = self.composition.handlers, self.composition.services.database
            access = Access({rpc: handler.rules for rpc, handler in handlers.items()}, self._identities)
            credentials = self._authority.server_credentials()
            self._certified = GrpcServer(handlers, database, "127.0.0.1:0", credentials, access)
            self._certified.start()
        return grpc.secure_channel(
            f"127.0.0.1:{self._certified.port}",
            self._authority.channel_credentials(identity),
            options=(("grpc.ssl_target_name_override", SERVER_NAME),),
        )

    def _servicers(self) -> dict[ServiceDescriptor, SimpleNamespace]:
        # With a database server not every method is served.
        calls = {
            rpc: handler.messages if handler.streaming else handler.answer
            for rpc, handler in self.composition.handlers.items()
        }
        return {
            service: SimpleNamespace(
                **{
                    method.name: calls[f"/{service.full_name}/{method.name}"]
                    for method in service.methods
                    if f"/{service.full_name}/{method.name}" in calls
                }
            )
            for service in services()
        }


@contextmanager
def test_backend(**settings: Any) -> Iterator[TestBackend]:
    """Yields a backend on an empty database in memory, and removes all of its data afterwards.

    Args:
        settings: Fields of `backend.settings.BackendSettings` in place of their defaults, as `identities`.
    """
    with _memory_folder() as folder:
        chosen: dict[str, Any] = {
            "data": folder / "data",
            "deployment_id": "test",
        }
        given = BackendSettings(**(chosen | settings))
        if given.database is None and given.data == folder / "data":
            given.data.mkdir(mode=0o700)
            (given.data / DATABASE_FILE).write_bytes(_empty_database())
        backend = TestBackend(given, folder)
        try:
            yield backend
        finally:
            backend.close()


@functools.cache
def _empty_database() -> bytes:
    """Returns the file of a database that has its schema alone; to copy it takes a sixth of the time to make it."""
    with _memory_folder() as folder:
        file = folder / DATABASE_FILE
        prepare(file)
        return file.read_bytes()


class _SharedSchemaValidator(SchemaValidator):
    """Validator shared by all backends of this process, because starting its processes takes longer than most tests."""

    def close(self) -> None:
        """Keeps the processes for the next backend; they end with this process."""


@functools.cache
def _shared_schema_validator(bounds: CheckBounds) -> SchemaValidator:
    return _SharedSchemaValidator(bounds)


# Keeps pytest from collecting the function as a test where a test module imports it.
test_backend.__test__ = False  # type: ignore[attr-defined]


@contextmanager
def _memory_folder() -> Iterator[Path]:
    """Yields a private folder on a file system in memory, or else a temporary folder.

    Containers may have too little memory for files.
    """
    where = _MEMORY if _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free >= _ENOUGH_BYTES else None
    folder = Path(tempfile.mkdtemp(prefix="workflow-api-test-", dir=where))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
