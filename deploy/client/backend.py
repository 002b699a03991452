"""Client of the internal gRPC services for administrators."""

import os
import pwd
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Protocol, TypeVar, cast

import grpc
from google.protobuf.message import Message
from grpc_health.v1.health_pb2_grpc import HealthStub
from grpc_status import rpc_status

from contract import metadata
from contract.ids import request_id_from
from contract.local_context import LocalContext
from contract.paging import next_page
from contract.refusals import refusal_from_status
from deploy.config.addresses import grpc_address
from deploy.config.settings import ClientTls
from deploy.config.source import read_settings
from deploy.failures import CommandError, timed_out, unreachable
from deploy.transport.grpc_channels import calling_channel
from workflow_api.v1.audit_pb2_grpc import AuditServiceStub
from workflow_api.v1.definitions_pb2_grpc import DefinitionsServiceStub
from workflow_api.v1.deployment_health_pb2_grpc import DeploymentHealthServiceStub
from workflow_api.v1.deployment_pb2_grpc import DeploymentServiceStub
from workflow_api.v1.environments_pb2_grpc import EnvironmentsServiceStub
from workflow_api.v1.keys_pb2_grpc import KeysServiceStub
from workflow_api.v1.logs_pb2_grpc import LogsServiceStub
from workflow_api.v1.model_usage_pb2_grpc import ModelUsageServiceStub
from workflow_api.v1.outputs_pb2_grpc import OutputsServiceStub
from workflow_api.v1.reviews_pb2_grpc import ReviewsServiceStub
from workflow_api.v1.run_lists_pb2_grpc import RunListsServiceStub
from workflow_api.v1.runs_pb2_grpc import RunsServiceStub
from workflow_api.v1.schedules_pb2_grpc import SchedulesServiceStub
from workflow_api.v1.usage_pb2_grpc import UsageServiceStub
from workflow_api.v1.users_pb2_grpc import UsersServiceStub
from workflow_api.v1.webhooks_pb2_grpc import WebhooksServiceStub
from workflow_api.v1.workflows_pb2_grpc import WorkflowsServiceStub

TIMEOUT_SECONDS: Final = 60.0

_CHANNEL_OPTIONS: Final = (
    # A definition may have 8 MiB (contract 22.6), which is more than gRPC's default.
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # The problems of a manifest are in the trailer, and may be many.
    ("grpc.max_metadata_size", 4 * 1_048_576),
    ("grpc.absolute_max_metadata_size", 4 * 1_048_576),
    # The backend is on an internal network: never use a proxy that the environment configures.
    ("grpc.enable_http_proxy", 0),
)

Request = TypeVar("Request", bound=Message)
Answer = TypeVar("Answer", bound=Message)

_NEVER: Final = 1e9


class RpcHandler(Protocol):
    """One wrapped RPC of the backend; see `backend.rpc.interceptors.Handler`."""

    def answer(self, request: Any, context: Any) -> Message:
        """Returns the answer of a unary RPC."""
        ...

    def messages(self, request: Any, context: Any) -> Iterator[Message]:
        """Yields the messages of a streaming RPC."""
        ...


class HandlerChannel:
    """Answers the calls of stubs by handlers, keyed by `/package.Service/Method`; a refusal raises CommandError."""

    def __init__(self, handlers: Mapping[str, RpcHandler]) -> None:
        self._handlers = handlers

    def unary_unary(self, path: str, **_: object) -> Callable[..., Message]:
        """Returns a function that calls a unary RPC; see `grpc.Channel`."""

        def call(request: Message, *, metadata: Any = (), timeout: float | None = None) -> Message:
            context = LocalContext(metadata, timeout or _NEVER)
            answer = self._handlers[path].answer(request, context)
            _raise_refusal(context)
            return answer

        return call

    def unary_stream(self, path: str, **_: object) -> Callable[..., Iterator[Message]]:
        """Returns a function that calls a server-streaming RPC; see `grpc.Channel`."""

        def call(request: Message, *, metadata: Any = (), timeout: float | None = None) -> Iterator[Message]:
            context = LocalContext(metadata, timeout or _NEVER)
            try:
                yield from self._handlers[path].messages(request, context)
            finally:
                context.cancel()
            _raise_refusal(context)

        return call


class BackendClient:
    """Stubs of the services at one address, called in the name of the user at the terminal.

    A call that fails raises CommandError, made by `failure` from gRPC's error.
    """

    def __init__(
        self,
        channel: grpc.Channel,
        actor: str,
        request_id: str,
        failure: Callable[[grpc.RpcError], CommandError],
    ) -> None:
        self.audit = AuditServiceStub(channel)
        self.definitions = DefinitionsServiceStub(channel)
        self.deployment = DeploymentServiceStub(channel)
        self.deployment_health = DeploymentHealthServiceStub(channel)
        self.environments = EnvironmentsServiceStub(channel)
        self.health = HealthStub(channel)
        self.keys = KeysServiceStub(channel)
        self.logs = LogsServiceStub(channel)
        self.reviews = ReviewsServiceStub(channel)
        self.outputs = OutputsServiceStub(channel)
        self.runs = RunsServiceStub(channel)
        self.schedules = SchedulesServiceStub(channel)
        self.run_lists = RunListsServiceStub(channel)
        self.usage = UsageServiceStub(channel)
        self.model_usage = ModelUsageServiceStub(channel)
        self.users = UsersServiceStub(channel)
        self.webhooks = WebhooksServiceStub(channel)
        self.workflows = WorkflowsServiceStub(channel)
        self._metadata = ((metadata.ACTOR, metadata.encode_actor(actor)), (metadata.REQUEST_ID, request_id))
        self._failure = failure

    def call(
        self,
        method: "grpc.UnaryUnaryMultiCallable[Request, Answer]",
        request: Request,
        seconds: float | None = None,
    ) -> Answer:
        """Calls a unary method of a stub; changes are audited under the actor's name."""
        try:
            return method(request, metadata=self._metadata, timeout=seconds or TIMEOUT_SECONDS)
        except grpc.RpcError as error:
            raise self._failure(error) from None

    def pages(self, method: "grpc.UnaryUnaryMultiCallable[Request, Answer]", request: Request) -> Iterator[Answer]:
        """Calls a list method for the requested page and all that follow."""
        while True:
            page: Any = self.call(method, request)
            yield page
            if not page.HasField("next_page_token"):
                return
            request = next_page(request, page.next_page_token)

    def stream(
        self,
        method: "grpc.UnaryStreamMultiCallable[Request, Answer]",
        request: Request,
        seconds: float | None = None,
    ) -> Iterator[Answer]:
        """Calls a streaming method of a stub; `seconds` overrides the common timeout."""
        try:
            yield from method(request, metadata=self._metadata, timeout=seconds or TIMEOUT_SECONDS)
        except grpc.RpcError as error:
            raise self._failure(error) from None


def in_process(handlers: Mapping[str, RpcHandler]) -> BackendClient:
    """Returns a client of services in this process, by the handlers of their RPCs."""

    def impossible(error: grpc.RpcError) -> CommandError:
        return CommandError(f"A call within the process failed: {error}", code="runtime_error")

    # Stubs use only these methods of a channel.
    channel = cast("grpc.Channel", HandlerChannel(handlers))
    return BackendClient(channel, os_user(), request_id_from(()), impossible)


@contextmanager
def connected(address: str, actor: str | None = None, tls: ClientTls | None = None) -> Iterator[BackendClient]:
    """Connects to the services at `address` (`HOST:PORT` or `unix:/path`); failed calls raise CommandError.

    Without `tls`, the certificate of the settings `admin.backend_tls` is used.
    """
    request_id = request_id_from(())
    if tls is None:
        tls = read_settings(os.environ).admin.backend_tls
    with calling_channel(grpc_address(address), tls, _CHANNEL_OPTIONS) as channel:
        secure = tls.given
        yield BackendClient(
            channel,
            actor or os_user(),
            request_id,
            lambda error: failure_of(error, address, request_id, secure=secure),
        )


def os_user() -> str:
    """Returns the name of the operating system's user for the audit, or `uid:<number>` without a name."""
    uid = os.geteuid()
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid:{uid}"


def failure_of(error: grpc.RpcError, address: str, request_id: str, *, secure: bool = False) -> CommandError:
    """Returns the failure of a call to the backend at `address` with this request id.

    Over TLS the message quotes gRPC, which distinguishes a certificate that does not fit from a backend that is down.
    """
    try:
        status = rpc_status.from_call(error)
    except ValueError:
        status = None
    if status is None and error.code() is grpc.StatusCode.UNAVAILABLE:
        return unreachable(address, error.details() or "" if secure else "")
    if status is None and error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        return timed_out(address)
    if status is None and "message larger than max" in (error.details() or ""):
        return CommandError(
            f"The call of {address}, or its answer, is larger than one message may be: {error.details()}",
            code="invalid_request",
            request_id=request_id,
        )
    if status is None:
        return CommandError(
            f"The backend answered {error.code().name}: {error.details()}", code="runtime_error", request_id=request_id
        )
    refusal = refusal_from_status(status)
    return CommandError(refusal.message, code=refusal.code, details=refusal.details, request_id=request_id)


def _raise_refusal(context: LocalContext) -> None:
    refusal = context.refusal()
    if refusal is not None:
        raise CommandError(refusal.message, code=refusal.code, details=refusal.details)
