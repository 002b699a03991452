import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from edge.channel import LONGEST_STREAM_SECONDS, Channel
from edge.channel.in_process import InProcessChannel
from edge.channel.remote import CHANNEL_OPTIONS, RemoteChannel
from edge.channel.trailer import STATUS_TRAILER
from edge.errors import Refusal
from edge.services import METHODS
from tests.unit.edge.wire import wait_until
from workflow_api.v1.keys_pb2 import ApiKey, GetMeRequest, KeyMirror, WatchKeysRequest
from workflow_api.v1.outputs_pb2 import GetOutputsZipRequest, GetOutputsZipResponse
from workflow_api.v1.runs_pb2 import (
    CancelRunRequest,
    CancelRunResponse,
    EraseRunDataRequest,
    EraseRunDataResponse,
    GetRunRequest,
    ListRunsRequest,
    ListRunsResponse,
    RunSummary,
)
from workflow_api.v1.runs_pb2 import Run as RunRecord

GET_ME = "/workflow_api.v1.KeysService/GetMe"
WATCH = "/workflow_api.v1.KeysService/WatchKeys"
LIST_RUNS = "/workflow_api.v1.RunsService/ListRuns"
GET_RUN = "/workflow_api.v1.RunsService/GetRun"
ERASE = "/workflow_api.v1.RunsService/EraseRunData"
ZIP = "/workflow_api.v1.OutputsService/GetOutputsZip"
CANCEL = "/workflow_api.v1.RunsService/CancelRun"
RECORD_USAGE = "/workflow_api.v1.KeysService/RecordUsage"


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


def refuse(reason: str, code: grpc.StatusCode, domain: str = "workflow-api") -> Callable[..., ApiKey]:
    def call(_: Message, context: grpc.ServicerContext) -> ApiKey:
        status = Status(message="for a person")
        status.details.add().Pack(ErrorInfo(reason=reason, domain=domain))
        context.set_trailing_metadata(((STATUS_TRAILER, status.SerializeToString()),))
        context.set_code(code)
        context.set_details("for a person")
        return ApiKey()

    return call


def broken(_: Message, __: grpc.ServicerContext) -> ApiKey:
    raise ValueError("secret")


class Handler:
    def __init__(self, call: Callable[..., Any], *, point_read: bool = False) -> None:
        self.call = call
        self.point_read = point_read


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


def _in_process(handlers: dict[str, Handler], use: Use) -> Any:
    async def run() -> Any:
        channel = InProcessChannel(handlers)
        try:
            return await use(channel)
        finally:
            await channel.close()

    return asyncio.run(run())


def _remote(handlers: dict[str, Handler], use: Use) -> Any:
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


@pytest.fixture(name="run", params=[_in_process, _remote], ids=["in-process", "remote"])
def _run(request: pytest.FixtureRequest) -> Run:
    run: Run = request.param
    return run


def get_me(seconds: float = 5.0) -> Use:
    return lambda channel: channel.unary(GET_ME, GetMeRequest(), (("workflow-api-key-id", "ak_1"),), seconds)


def test_a_unary_call_brings_its_metadata_and_its_answer(run: Run) -> None:
    servicers = Servicers()
    answer = run({GET_ME: Handler(servicers.get_me)}, get_me())
    assert answer == ApiKey(key_id="ak_1")
    assert servicers.metadata["workflow-api-key-id"] == "ak_1"


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (refuse("RUN_NOT_FOUND", grpc.StatusCode.NOT_FOUND), "run_not_found"),
        (refuse("INTERNAL", grpc.StatusCode.INTERNAL), "internal"),
        (refuse("DEPLOYMENT_UPDATING", grpc.StatusCode.UNAVAILABLE), "deployment_updating"),
        (refuse("NEWER_THAN_THIS_EDGE", grpc.StatusCode.NOT_FOUND), "runtime_error"),
        (refuse("RUN_NOT_FOUND", grpc.StatusCode.NOT_FOUND, domain="elsewhere"), "runtime_error"),
        (broken, "runtime_error"),
    ],
    ids=["ours", "internal", "unavailable with a reason", "unknown reason", "other domain", "exception"],
)
def test_a_refusal_is_read_alike_over_both_channels(run: Run, call: Callable[..., Any], code: str) -> None:
    with pytest.raises(Refusal) as refused:
        run({GET_ME: Handler(call)}, get_me())
    assert refused.value.code == code
    assert "secret" not in str(refused.value)


MEBIBYTE = 2**20
LARGE_RUN = RunRecord(
    parameters=f'"{"p" * MEBIBYTE}"',
    input_text="é" * 20_000,
    inputs_manifest=f'"{"m" * MEBIBYTE}"',
    result=f'"{"r" * 262_142}"',
    summary_markdown="s" * 2 * MEBIBYTE,
)
LARGE_PAGE = ListRunsResponse(items=[RunSummary(run_id=f"run_{n}", warnings=["w" * 60_000]) for n in range(100)])


@pytest.mark.parametrize(
    ("rpc", "request_message", "answer"),
    [(GET_RUN, GetRunRequest(run_id="run_1"), LARGE_RUN), (LIST_RUNS, ListRunsRequest(limit=100), LARGE_PAGE)],
    ids=["a run of megabytes", "100 large runs"],
)
def test_an_answer_larger_than_grpc_takes_by_itself_arrives_whole(
    run: Run, rpc: str, request_message: Message, answer: Message
) -> None:
    assert answer.ByteSize() > 4 * MEBIBYTE
    got = run({rpc: Handler(lambda *_: answer)}, lambda channel: channel.unary(rpc, request_message, (), 20.0))
    assert got == answer


def test_no_answer_in_time_is_unreachable(run: Run) -> None:
    servicers = Servicers()

    def hang(_: Message, __: grpc.ServicerContext) -> ApiKey:
        servicers.let_go.wait(10)
        return ApiKey()

    async def use(channel: Channel) -> None:
        try:
            await get_me(0.05)(channel)
        finally:
            servicers.let_go.set()

    with pytest.raises(Refusal) as refused:
        run({GET_ME: Handler(hang)}, use)
    assert refused.value.code == "runtime_unreachable"


def test_a_backend_that_is_down_is_unreachable() -> None:
    async def call() -> None:
        channel = RemoteChannel(grpc.aio.insecure_channel("127.0.0.1:1"))
        try:
            await get_me()(channel)
        finally:
            await channel.close()

    with pytest.raises(Refusal) as refused:
        asyncio.run(call())
    assert refused.value.code == "runtime_unreachable"


def test_a_backend_that_comes_back_is_found() -> None:
    first = Grpc({GET_ME: Handler(Servicers().get_me)})
    first.stop()

    async def call() -> Message:
        channel = RemoteChannel(grpc.aio.insecure_channel(f"127.0.0.1:{first.port}", options=CHANNEL_OPTIONS))
        second = None
        try:
            with pytest.raises(Refusal):
                await get_me()(channel)
            second = Grpc({GET_ME: Handler(Servicers().get_me)}, first.port)
            async with asyncio.timeout(10):
                while True:
                    with suppress(Refusal):
                        answer: Message = await get_me()(channel)
                        return answer
                    await asyncio.sleep(0.01)
        finally:
            await channel.close()
            if second is not None:
                second.stop()

    assert asyncio.run(call()) == ApiKey(key_id="ak_1")


def stopping(status: grpc.StatusCode, then: Message, tries: list[Message]) -> Callable[..., Message]:
    """What a caller sees of a backend that stops, and then of the one that it reaches next."""

    def call(request: Message, context: grpc.ServicerContext) -> Message:
        tries.append(request)
        if len(tries) == 1:
            context.abort(status, "")
        return then

    return call


@pytest.mark.parametrize("status", [grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAVAILABLE])
def test_a_call_that_a_stopping_backend_gives_back_is_made_again(status: grpc.StatusCode) -> None:
    tries: list[Message] = []
    answer = ApiKey(key_id="ak_1")
    assert _remote({GET_ME: Handler(stopping(status, answer, tries))}, get_me()) == answer
    assert len(tries) == 2


def test_a_call_that_does_another_thing_when_made_again_is_not() -> None:
    tries: list[Message] = []
    handler = Handler(stopping(grpc.StatusCode.CANCELLED, EraseRunDataResponse(), tries))
    with pytest.raises(Refusal) as refused:
        _remote({ERASE: handler}, lambda channel: channel.unary(ERASE, EraseRunDataRequest(run_id="run_1"), (), 5.0))
    assert refused.value.code == "runtime_unreachable"
    assert len(tries) == 1


def test_a_refusal_is_not_asked_for_again() -> None:
    tries: list[Message] = []
    refusing = refuse("RUNTIME_UNREACHABLE", grpc.StatusCode.UNAVAILABLE)

    def call(request: Message, context: grpc.ServicerContext) -> ApiKey:
        tries.append(request)
        return refusing(request, context)

    with pytest.raises(Refusal):
        _remote({GET_ME: Handler(call)}, get_me())
    assert len(tries) == 1


@pytest.mark.parametrize("sent", [0, 1])
def test_a_download_is_begun_again_before_its_first_message_only(sent: int) -> None:
    tries: list[Message] = []
    message = GetOutputsZipResponse(data=b"x")

    def zipped(request: Message, context: grpc.ServicerContext) -> Iterator[Message]:
        tries.append(request)
        yield from [message] * sent
        if len(tries) == 1:
            context.abort(grpc.StatusCode.CANCELLED, "")
        yield message

    async def use(channel: Channel) -> list[Message]:
        request = GetOutputsZipRequest(run_id="run_1")
        async with aclosing(channel.stream(ZIP, request, (), 5.0)) as messages:
            return [message async for message in messages]

    if sent:
        with pytest.raises(Refusal):
            _remote({ZIP: Handler(zipped)}, use)
    else:
        assert _remote({ZIP: Handler(zipped)}, use) == [message]
    assert len(tries) == 2 - sent


def test_calls_go_on_at_another_backend_when_one_ends() -> None:
    first, second = (Grpc({CANCEL: Handler(lambda *_: CancelRunResponse())}) for _ in range(2))

    async def call() -> None:
        target = f"ipv4:127.0.0.1:{first.port},127.0.0.1:{second.port}"
        channel = RemoteChannel(grpc.aio.insecure_channel(target, options=CHANNEL_OPTIONS))
        try:
            for _ in range(10):
                await channel.unary(CANCEL, CancelRunRequest(), (), 5.0)
            first.stop()
            for _ in range(10):
                await channel.unary(CANCEL, CancelRunRequest(), (), 5.0)
        finally:
            await channel.close()

    try:
        asyncio.run(call())
    finally:
        first.stop()
        second.stop()


def test_a_call_waits_a_moment_for_a_backend_that_comes_back() -> None:
    backend = Grpc({CANCEL: Handler(lambda *_: CancelRunResponse())})

    async def call() -> None:
        target = f"127.0.0.1:{backend.port}"
        channel = RemoteChannel(grpc.aio.insecure_channel(target, options=CHANNEL_OPTIONS))
        again: list[Grpc] = []
        try:
            await channel.unary(CANCEL, CancelRunRequest(), (), 5.0)
            backend.stop()
            waiting = asyncio.ensure_future(channel.unary(CANCEL, CancelRunRequest(), (), 5.0))
            again.append(Grpc({CANCEL: Handler(lambda *_: CancelRunResponse())}, backend.port))
            await waiting
        finally:
            await channel.close()
            for server in again:
                server.stop()

    asyncio.run(call())


def test_new_calls_take_a_renewed_channel_and_calls_under_way_end_on_the_former(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("edge.channel.remote._RENEWAL_SECONDS", 0)
    servicers = Servicers()
    former = Grpc({WATCH: Handler(servicers.watch)})
    latter = Grpc({GET_ME: Handler(servicers.get_me)})

    async def call() -> None:
        first, second = (
            grpc.aio.insecure_channel(f"127.0.0.1:{server.port}", options=CHANNEL_OPTIONS)
            for server in (former, latter)
        )
        coming = [None, second]
        channel = RemoteChannel(first, lambda: coming.pop(0) if coming else None)
        async with aclosing(channel.stream(WATCH, WatchKeysRequest(), (), 5)) as mirrors:
            await anext(mirrors)
            assert await get_me()(channel) == ApiKey(key_id="ak_1")
            before: Any = await anext(mirrors)
            after: Any = await anext(mirrors)
            assert after.revision == before.revision + 1
        await asyncio.to_thread(wait_until, lambda: first.get_state() is grpc.ChannelConnectivity.SHUTDOWN)
        assert await get_me()(channel) == ApiKey(key_id="ak_1")
        await channel.close()

    try:
        asyncio.run(call())
    finally:
        former.stop()
        latter.stop()


def test_closing_ends_calls_on_a_former_channel_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edge.channel.remote._RENEWAL_SECONDS", 0)
    servicers = Servicers()
    server = Grpc({WATCH: Handler(servicers.watch), GET_ME: Handler(servicers.get_me)})

    async def call() -> None:
        first, second = (grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") for _ in range(2))
        coming = [None, second]
        channel = RemoteChannel(first, lambda: coming.pop(0) if coming else None)
        mirrors = channel.stream(WATCH, WatchKeysRequest(), (), 5)
        await anext(mirrors)
        await get_me()(channel)
        await channel.close()
        assert {first.get_state(), second.get_state()} == {grpc.ChannelConnectivity.SHUTDOWN}
        await mirrors.aclose()

    try:
        asyncio.run(call())
        assert servicers.closed.wait(10)
    finally:
        server.stop()


def test_an_answer_that_cannot_be_read_is_a_runtime_error() -> None:
    class Garbage:
        def SerializeToString(self) -> bytes:
            return b"\xff\xff\xff"

    with pytest.raises(Refusal) as refused:
        _remote({GET_ME: Handler(lambda *_: Garbage())}, get_me())
    assert refused.value.code == "runtime_error"


def test_an_rpc_that_the_backend_does_not_know_is_a_runtime_error() -> None:
    with pytest.raises(Refusal) as refused:
        _remote({}, get_me())
    assert refused.value.code == "runtime_error"


def test_a_stream_can_be_left_at_any_time_and_its_generator_is_closed(run: Run) -> None:
    servicers = Servicers()

    async def use(channel: Channel) -> list[int]:
        seen = []
        async with aclosing(channel.stream(WATCH, WatchKeysRequest(), (), 5)) as mirrors:
            async for mirror in mirrors:
                seen.append(mirror.revision)  # type: ignore[attr-defined]
                if len(seen) == 3:
                    break
        assert await asyncio.to_thread(servicers.closed.wait, 10)
        return seen

    assert run({WATCH: Handler(servicers.watch)}, use) == [1, 2, 3]


def test_a_slow_reader_holds_the_stream_back(run: Run) -> None:
    servicers = Servicers()

    async def use(channel: Channel) -> None:
        async with aclosing(channel.stream(WATCH, WatchKeysRequest(), (), 5)) as mirrors:
            await anext(mirrors)
            async with asyncio.timeout(10):
                sent = 0
                while servicers.sent != sent:
                    sent = servicers.sent
                    await asyncio.sleep(0.1)

    run({WATCH: Handler(servicers.watch)}, use)


def test_a_refusal_after_messages_ends_the_stream_with_it(run: Run) -> None:
    def watch(request: Message, context: grpc.ServicerContext) -> Iterator[KeyMirror]:
        yield KeyMirror(revision=1)
        refuse("INTERNAL", grpc.StatusCode.INTERNAL)(request, context)

    seen: list[KeyMirror] = []

    async def use(channel: Channel) -> None:
        stream: AsyncIterator[Any] = channel.stream(WATCH, WatchKeysRequest(), (), 5)
        async for message in stream:
            seen.append(message)  # noqa: PERF401 - what came before the refusal is kept

    with pytest.raises(Refusal) as refused:
        run({WATCH: Handler(watch)}, use)
    assert refused.value.code == "internal"
    assert [mirror.revision for mirror in seen] == [1]


def test_a_stream_that_breaks_is_a_runtime_error(run: Run) -> None:
    def watch(_: Message, __: grpc.ServicerContext) -> Iterator[KeyMirror]:
        yield KeyMirror(revision=1)
        raise ValueError("secret")

    async def use(channel: Channel) -> None:
        async for _ in channel.stream(WATCH, WatchKeysRequest(), (), 5):
            pass

    with pytest.raises(Refusal) as refused:
        run({WATCH: Handler(watch)}, use)
    assert refused.value.code == "runtime_error"


def test_a_silent_stream_is_unreachable(run: Run) -> None:
    let_go = threading.Event()

    def watch(_: Message, __: grpc.ServicerContext) -> Iterator[KeyMirror]:
        yield KeyMirror(revision=1)
        let_go.wait(10)

    async def use(channel: Channel) -> None:
        try:
            async for _ in channel.stream(WATCH, WatchKeysRequest(), (), 0.05):
                pass
        finally:
            let_go.set()

    with pytest.raises(Refusal) as refused:
        run({WATCH: Handler(watch)}, use)
    assert refused.value.code == "runtime_unreachable"


def test_every_call_has_a_deadline(run: Run) -> None:
    left: dict[str, float] = {}

    def get(_: Message, context: grpc.ServicerContext) -> ApiKey:
        left[GET_ME] = context.time_remaining()
        return ApiKey()

    def watch(_: Message, context: grpc.ServicerContext) -> Iterator[KeyMirror]:
        left[WATCH] = context.time_remaining()
        yield KeyMirror()

    async def use(channel: Channel) -> None:
        await get_me(5.0)(channel)
        async for _ in channel.stream(WATCH, WatchKeysRequest(), (), 5):
            pass

    run({GET_ME: Handler(get), WATCH: Handler(watch)}, use)
    # grpc rounds up what it sends.
    assert left[GET_ME] <= 1.1 * 5.0
    assert left[WATCH] <= 1.1 * LONGEST_STREAM_SECONDS


def test_a_stream_that_goes_on_past_its_deadline_is_unreachable(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("in_process", "remote"):
        monkeypatch.setattr(f"edge.channel.{module}.LONGEST_STREAM_SECONDS", 0.3)

    async def use(channel: Channel) -> None:
        async for _ in channel.stream(WATCH, WatchKeysRequest(), (), 60):
            pass

    with pytest.raises(Refusal) as refused:
        run({WATCH: Handler(Servicers().watch)}, use)
    assert refused.value.code == "runtime_unreachable"


def test_point_reads_run_on_the_loop_and_everything_else_beside_it() -> None:
    servicers = Servicers()
    threads = []
    for quick in (True, False):
        _in_process({GET_ME: Handler(servicers.get_me, point_read=quick)}, get_me())
        threads.append(servicers.thread == threading.get_ident())
    assert threads == [True, False]


def test_a_call_in_process_is_told_when_nobody_waits_any_more() -> None:
    told = threading.Event()

    def watch(_: Message, context: grpc.ServicerContext) -> Iterator[KeyMirror]:
        woken = threading.Event()
        context.add_callback(woken.set)
        yield KeyMirror(revision=1)
        woken.wait(10)
        told.set()

    async def use(channel: Channel) -> None:
        stream = channel.stream(WATCH, WatchKeysRequest(), (), 5)
        await anext(stream)
        waiting = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)

    _in_process({WATCH: Handler(watch)}, use)
    wait_until(told.is_set)
