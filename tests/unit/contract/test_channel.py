import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf.message import Message

from backend.services.run_changes import RunChanges
from contract.channel import LONGEST_STREAM_SECONDS, Channel
from contract.channel.in_process import InProcessChannel
from contract.local_context import CachedAnswer, LocalContext
from contract.refusals import Refusal
from tests.support.poll import wait_until
from tests.unit.backend.services.test_run_changes import Database
from tests.unit.contract.channels import (
    GET_ME,
    GET_RUN,
    LIST_RUNS,
    WATCH,
    Handler,
    Run,
    Servicers,
    broken,
    get_me,
    in_process,
    refuse,
)
from workflow_api.v1.caller_pb2 import GetMeRequest
from workflow_api.v1.edge_pb2 import KeyMirror, WatchKeyMirrorRequest
from workflow_api.v1.keys_pb2 import ApiKey
from workflow_api.v1.runs_pb2 import GetRunRequest, ListRunsRequest, ListRunsResponse, RunSummary
from workflow_api.v1.runs_pb2 import Run as RunRecord


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
    [(GET_RUN, GetRunRequest(run_id="run_1"), LARGE_RUN), (LIST_RUNS, ListRunsRequest(page_size=100), LARGE_PAGE)],
    ids=["a run of megabytes", "100 large runs"],
)
def test_an_answer_larger_than_grpc_takes_by_itself_arrives_whole(
    run: Run, rpc: str, request_message: Message, answer: Message
) -> None:
    assert answer.ByteSize() > 4 * MEBIBYTE
    got = run({rpc: Handler(lambda *_: answer)}, lambda channel: channel.unary(rpc, request_message, (), 60.0))
    assert got == answer


def test_a_call_that_waits_for_a_thread_when_the_channel_is_closed_is_refused() -> None:
    let_go, begun = threading.Event(), threading.Event()

    def hold(*_: Any) -> ApiKey:
        begun.set()
        let_go.wait(60)
        return ApiKey(key_id="ak_1")

    async def run() -> None:
        channel = InProcessChannel({GET_ME: Handler(hold)}, threads=1)
        busy, waiting = (asyncio.create_task(get_me()(channel)) for _ in range(2))
        await asyncio.to_thread(begun.wait, 60)
        await channel.close()
        let_go.set()
        assert (await busy).key_id == "ak_1"
        with pytest.raises(Refusal) as refused:
            await waiting
        assert refused.value.code == "runtime_unreachable"

    asyncio.run(run())


def test_no_answer_in_time_is_unreachable(run: Run) -> None:
    servicers = Servicers()

    def hang(_: Message, __: grpc.ServicerContext) -> ApiKey:
        servicers.let_go.wait(60)
        return ApiKey()

    async def use(channel: Channel) -> None:
        try:
            await get_me(0.05)(channel)
        finally:
            servicers.let_go.set()

    with pytest.raises(Refusal) as refused:
        run({GET_ME: Handler(hang)}, use)
    assert refused.value.code == "runtime_unreachable"


def test_a_stream_can_be_left_at_any_time_and_its_generator_is_closed(run: Run) -> None:
    servicers = Servicers()

    async def use(channel: Channel) -> list[int]:
        seen = []
        async with aclosing(channel.stream(WATCH, WatchKeyMirrorRequest(), (), 60)) as mirrors:
            async for mirror in mirrors:
                seen.append(mirror.revision)  # type: ignore[attr-defined]
                if len(seen) == 3:
                    break
        assert await asyncio.to_thread(servicers.closed.wait, 60)
        return seen

    assert run({WATCH: Handler(servicers.watch)}, use) == [1, 2, 3]


def test_a_slow_reader_holds_the_stream_back(run: Run) -> None:
    servicers = Servicers()

    async def use(channel: Channel) -> None:
        async with aclosing(channel.stream(WATCH, WatchKeyMirrorRequest(), (), 60)) as mirrors:
            await anext(mirrors)
            async with asyncio.timeout(60):
                sent = 0
                while servicers.sent != sent:
                    sent = servicers.sent
                    await asyncio.sleep(0.1)

    run({WATCH: Handler(servicers.watch)}, use)


def test_streams_that_pause_hold_no_thread() -> None:
    database = Database()
    changes = RunChanges(database)  # type: ignore[arg-type]  # what it uses of one
    waiting: list[Message] = []

    def steps(request: Message, _: grpc.ServicerContext) -> Iterator[Any]:
        subscription = changes.subscribe("run_1")
        waiting.append(request)
        try:
            yield subscription
            yield KeyMirror(revision=len(subscription.take().run_ids))
        finally:
            subscription.close()

    async def use(channel: Channel) -> list[Any]:
        streams = [channel.stream(WATCH, WatchKeyMirrorRequest(), (), 60) for _ in range(30)]
        first = [asyncio.ensure_future(anext(stream)) for stream in streams]
        await asyncio.to_thread(wait_until, lambda: len(waiting) == len(streams))
        database.announce(["run_1"])
        return await asyncio.gather(*first)

    # Of which there are five.
    assert [mirror.revision for mirror in in_process({WATCH: Handler(steps)}, use)] == [1] * 30


def test_a_refusal_after_messages_ends_the_stream_with_it(run: Run) -> None:
    def watch(request: Message, context: grpc.ServicerContext) -> Iterator[KeyMirror]:
        yield KeyMirror(revision=1)
        refuse("INTERNAL", grpc.StatusCode.INTERNAL)(request, context)

    seen: list[KeyMirror] = []

    async def use(channel: Channel) -> None:
        stream: AsyncIterator[Any] = channel.stream(WATCH, WatchKeyMirrorRequest(), (), 60)
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
        async for _ in channel.stream(WATCH, WatchKeyMirrorRequest(), (), 60):
            pass

    with pytest.raises(Refusal) as refused:
        run({WATCH: Handler(watch)}, use)
    assert refused.value.code == "runtime_error"


def test_a_silent_stream_is_unreachable(run: Run) -> None:
    let_go = threading.Event()

    def watch(_: Message, __: grpc.ServicerContext) -> Iterator[KeyMirror]:
        yield KeyMirror(revision=1)
        let_go.wait(60)

    async def use(channel: Channel) -> None:
        try:
            async for _ in channel.stream(WATCH, WatchKeyMirrorRequest(), (), 0.05):
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
        await get_me(60.0)(channel)
        async for _ in channel.stream(WATCH, WatchKeyMirrorRequest(), (), 60):
            pass

    run({GET_ME: Handler(get), WATCH: Handler(watch)}, use)
    # grpc rounds up what it sends.
    assert left[GET_ME] <= 1.1 * 60.0
    assert left[WATCH] <= 1.1 * LONGEST_STREAM_SECONDS


def test_a_stream_that_goes_on_past_its_deadline_is_unreachable(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("in_process", "remote"):
        monkeypatch.setattr(f"contract.channel.{module}.LONGEST_STREAM_SECONDS", 0.3)

    async def use(channel: Channel) -> None:
        async for _ in channel.stream(WATCH, WatchKeyMirrorRequest(), (), 60):
            pass

    with pytest.raises(Refusal) as refused:
        run({WATCH: Handler(Servicers().watch)}, use)
    assert refused.value.code == "runtime_unreachable"


def test_point_reads_run_on_the_loop_and_everything_else_beside_it() -> None:
    servicers = Servicers()
    threads = []
    for quick in (True, False):
        in_process({GET_ME: Handler(servicers.get_me, runs_inline=quick)}, get_me())
        threads.append(servicers.thread == threading.get_ident())
    assert threads == [True, False]


def test_a_cached_answer_is_found_without_a_call() -> None:
    answer = CachedAnswer(ApiKey(key_id="ak_cached"))
    cached, uncached = Handler(broken), Handler(broken)
    cached.cached_answer, uncached.cached_answer = lambda *_: answer, lambda *_: None

    async def use(channel: Channel) -> None:
        assert await channel.answer(GET_ME, GetMeRequest(), (), 60) is answer
        assert await channel.unary(GET_ME, GetMeRequest(), (), 60) is answer.message

    in_process({GET_ME: Handler(broken, cached_answer=lambda *_: answer)}, use)


def test_what_is_not_cached_is_read() -> None:
    handler = Handler(Servicers().get_me, cached_answer=lambda *_: None)
    assert in_process({GET_ME: handler}, get_me()) == ApiKey(key_id="ak_1")


def test_what_is_read_is_answered_as_the_cache_keeps_it() -> None:
    kept = CachedAnswer(ApiKey(key_id="ak_1"))

    def read(_: Message, context: LocalContext) -> Message:
        context.cached = kept
        return kept.message

    async def use(channel: Channel) -> None:
        assert await channel.answer(GET_ME, GetMeRequest(), (), 60) is kept

    in_process({GET_ME: Handler(read, cached_answer=lambda *_: None)}, use)


def test_a_call_in_process_is_told_when_nobody_waits_any_more() -> None:
    told = threading.Event()

    def watch(_: Message, context: grpc.ServicerContext) -> Iterator[KeyMirror]:
        woken = threading.Event()
        context.add_callback(woken.set)
        yield KeyMirror(revision=1)
        woken.wait(60)
        told.set()

    async def use(channel: Channel) -> None:
        stream = channel.stream(WATCH, WatchKeyMirrorRequest(), (), 60)
        await anext(stream)
        waiting = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)

    in_process({WATCH: Handler(watch)}, use)
    wait_until(told.is_set)


def test_a_unary_call_in_process_is_told_when_its_caller_is_cancelled() -> None:
    begun, told = threading.Event(), threading.Event()

    def hold(_: Message, context: grpc.ServicerContext) -> ApiKey:
        context.add_callback(told.set)
        begun.set()
        told.wait(60)
        return ApiKey()

    async def use(channel: Channel) -> None:
        waiting = asyncio.ensure_future(channel.unary(GET_ME, GetMeRequest(), (), 60))
        await asyncio.to_thread(begun.wait, 60)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert told.is_set()

    in_process({GET_ME: Handler(hold)}, use)
