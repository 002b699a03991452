"""The whole backend in memory, for tests of what calls it."""

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
from backend.common.deployment_terms import SchemaBounds
from backend.resources.schemas.validator import SchemaValidator
from backend.rpc.access import Access
from backend.rpc.server import GrpcServer
from backend.settings import BackendSettings
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
    """The time of a backend under test; it stands still until `advance` is called.

    `now` is in milliseconds since the epoch, and begins at 2026-09-21 14:13:20 UTC.
    """

    # Modules of tests may import it under a name that begins with `Test`.
    __test__ = False

    def __init__(self) -> None:
        self.now = _START_MS

    def __call__(self) -> int:
        """Returns the present time in milliseconds since the epoch."""
        return self.now

    def advance(self, *, seconds: float = 0, hours: float = 0, days: float = 0) -> None:
        """Moves the time on."""
        self.now += round((seconds + hours * 3_600 + days * 86_400) * 1_000)


class Key(NamedTuple):
    """An API key of a backend under test, with its bearer value; over gRPC its id alone counts."""

    key_id: str
    value: str
    external_id: str


class TestBackend(ScriptedRuns):
    """Every service as in production, on a database in memory, with runs that a script moves.

    Attributes:
        clock: The time that the services see.
        data: The data folder, with the database unless that is on a server.
        composition: The backend itself, with its handlers and what its servicers share.
    """

    __test__ = False

    def __init__(self, settings: BackendSettings, folder: Path) -> None:
        self.clock = SteppedClock()
        self.data = settings.data
        self.composition = Backend(settings, self.clock, schemas=_judge(settings.schema_bounds))
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
            key: The key that it acts for, or its id.
            actor: The person or service that it acts for; `internal` where none is given.
            identity: The name in the certificate with which it calls, as `dns:billing`: it may do what the `identities`
                given to `test_backend` say. Without one it calls as on one machine, where everything is allowed.
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
        """Makes an API key.

        Args:
            name: Its name.
            scopes: What it may do; everything where none are given. Edges check them, not the services.
            workflows: The ids of the workflows that it reaches; None for all that are active.
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
        """Makes an active workflow that ends with the step `work`, whose value is its result; returns its id.

        Args:
            name: Its name.
            parameters: Declarations of parameters, as in a manifest.
            approvals: Titles of approvals that each run waits for before its last step.
            fields: More fields of the manifest, or others in place of these.
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
            ScriptError: they are not valid; the message has every problem.
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
        """Ends every call and forgets everything."""
        for channel in self._channels.values():
            channel.close()
        if self._certified is not None:
            self._certified.stop(0)
        self.composition.stop(grace_seconds=0)

    @functools.cached_property
    def _authority(self) -> "Authority":
        # Most tests need no certificate, nor the import.
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
    """Gives every service of a backend on an empty database in memory; nothing of it is left afterwards.

    Args:
        settings: Fields of `backend.settings.BackendSettings` in place of their defaults, as `identities`.
    """
    with _memory_folder() as folder:
        chosen: dict[str, Any] = {
            "data": folder / "data",
            "deployment_id": "test",
        }
        backend = TestBackend(BackendSettings(**(chosen | settings)), folder)
        try:
            yield backend
        finally:
            backend.close()


class _LastingJudge(SchemaValidator):
    """Validates for every backend of this process: starting what it needs takes longer than most tests."""

    def close(self) -> None:
        """Leaves it to the next backend; its processes end with this one."""


@functools.cache
def _judge(bounds: SchemaBounds) -> SchemaValidator:
    return _LastingJudge(bounds)


# The name is that of a test where it is imported into a module of tests.
test_backend.__test__ = False  # type: ignore[attr-defined]


@contextmanager
def _memory_folder() -> Iterator[Path]:
    """Gives a folder of this user alone on a file system in memory, or else a temporary one.

    Containers may have little of it.
    """
    where = _MEMORY if _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free >= _ENOUGH_BYTES else None
    folder = Path(tempfile.mkdtemp(prefix="workflow-api-test-", dir=where))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
