"""Services of the tests' own, and the two channels to them."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import grpc
import grpc.aio
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from contract.channel import Channel
from contract.channel.in_process import InProcessChannel
from contract.channel.remote import CHANNEL_OPTIONS, RemoteChannel
from contract.local_context import LocalContext
from contract.metadata import STATUS_TRAILER
from contract.refusals import Refusal, refusal_from_status
from contract.routes import METHODS
from workflow_api.v1.caller_pb2 import GetMeRequest
from workflow_api.v1.edge_pb2 import KeyMirror
from workflow_api.v1.keys_pb2 import ApiKey

GET_ME = "/workflow_api.v1.CallerService/GetMe"
WATCH = "/workflow_api.v1.EdgeService/WatchKeyMirror"
LIST_RUNS = "/workflow_api.v1.RunsService/ListRuns"
GET_RUN = "/workflow_api.v1.RunsService/GetRun"
ERASE = "/workflow_api.v1.RunsService/EraseRunData"
ZIP = "/workflow_api.v1.OutputsService/GetOutputsZip"
CANCEL = "/workflow_api.v1.RunsService/CancelRun"


class Servicers:
    """What the tests' RPCs do; the same over both channels."""

    def __init__(self) -> None:
        self.closed = threading.Event()
        self.sent = 0
        self.metadata: dict[str, str] = {}
        self.thread = 0
        self.let_go = threading.Event()

    def get_me(self, _: Message, context: grpc.ServicerContext) -> ApiKey:
        self.metadata = dict(context.invocation_metadata())  # type: ignore[arg-type]
        self.thread = threading.get_ident()
        return ApiKey(key_id="ak_1")

    def watch(self, _: Message, context: grpc.ServicerContext) -> Iterator[KeyMirror]:
        try:
            while context.is_active():
                self.sent += 1
                yield KeyMirror(revision=self.sent, deployment_id="d" * 65536)
        finally:
            self.closed.set()


class RefusedBy(NamedTuple):
    """A servicer's error."""

    status: Status

    def to_status(self) -> Status:
        return self.status

    def to_refusal(self) -> Refusal:
        return refusal_from_status(self.status)


def refuse(reason: str, code: grpc.StatusCode, domain: str = "workflow-api") -> Callable[..., ApiKey]:
    def call(_: Message, context: grpc.ServicerContext) -> ApiKey:
        status = Status(message="for a person")
        status.details.add().Pack(ErrorInfo(reason=reason, domain=domain))
        if isinstance(context, LocalContext):
            context.error = RefusedBy(status)
        else:
            context.set_trailing_metadata(((STATUS_TRAILER, status.SerializeToString()),))
        context.set_code(code)
        context.set_details("for a person")
        return ApiKey()

    return call


def broken(_: Message, __: grpc.ServicerContext) -> ApiKey:
    raise ValueError("secret")


class Handler:
    page_read = False

    def __init__(
        self, call: Callable[..., Any], *, runs_inline: bool = False, cached_answer: Callable[..., Any] | None = None
    ) -> None:
        self.call = call
        self.cached_answer = cached_answer
        self.runs_inline: Callable[[Any], bool] | None = (lambda _: True) if runs_inline else None


class Grpc:
    """A real gRPC server on a free port."""

    def __init__(self, handlers: dict[str, Handler], port: int = 0) -> None:
        self._server = grpc.server(ThreadPoolExecutor(4))
        for rpc, handler in handlers.items():
            service, _, method = rpc.lstrip("/").partition("/")
            make: Any = grpc.unary_stream_rpc_method_handler if METHODS[rpc].server_streaming else _unary
            read = _class_of(METHODS[rpc].input_type.name).FromString
            made = make(handler.call, read, lambda message: message.SerializeToString())
            generic = grpc.method_handlers_generic_handler(service, {method: made})
            self._server.add_generic_rpc_handlers((generic,))
        self.port = self._server.add_insecure_port(f"127.0.0.1:{port}")
        self._server.start()

    def stop(self) -> None:
        self._server.stop(None).wait()


_unary = grpc.unary_unary_rpc_method_handler


def _class_of(name: str) -> type[Message]:
    from google.protobuf.message_factory import GetMessageClass

    return next(GetMessageClass(m.input_type) for m in METHODS.values() if m.input_type.name == name)


Use = Callable[[Channel], Coroutine[Any, Any, Any]]
Run = Callable[[dict[str, Handler], Use], Any]


def in_process(handlers: dict[str, Handler], use: Use) -> Any:
    async def run() -> Any:
        channel = InProcessChannel(handlers)
        try:
            return await use(channel)
        finally:
            await channel.close()

    return asyncio.run(run())


def remote(handlers: dict[str, Handler], use: Use) -> Any:
    server = Grpc(handlers)

    async def run() -> Any:
        channel = RemoteChannel(grpc.aio.insecure_channel(f"127.0.0.1:{server.port}", options=CHANNEL_OPTIONS))
        try:
            return await use(channel)
        finally:
            await channel.close()

    try:
        return asyncio.run(run())
    finally:
        server.stop()


def get_me(seconds: float = 60.0) -> Use:
    return lambda channel: channel.unary(GET_ME, GetMeRequest(), (("workflow-api-key-id", "ak_1"),), seconds)
