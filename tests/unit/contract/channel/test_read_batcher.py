"""Point reads of many callers in one call: each answered by itself, and none held up by a call that hangs."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

import pytest
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from contract.channel import Metadata
from contract.channel.read_batcher import READ_MANY, NotServedError, ReadBatcher
from contract.metadata import KEY_ID, REQUEST_ID
from contract.refusals import Refusal
from workflow_api.v1.edge_pb2 import KeyReadAnswer, ReadManyRequest, ReadManyResponse
from workflow_api.v1.runs_pb2 import GetRunRequest, Run

GET_RUN = "/workflow_api.v1.RunsService/GetRun"
METADATA = ((KEY_ID, "ak_1"), (REQUEST_ID, "r_1"))


class Backend:
    """Answers a run with its id as its tag; `run_refused` is unknown to it."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.open = asyncio.Event()
        self.open.set()
        self.called = asyncio.Event()
        self.fails: Exception | None = None
        self.key_reads: list[Any] = []

    async def call(self, rpc: str, request: Message, _: Metadata, seconds: float) -> Message:
        assert 0 < seconds <= 60
        self.called.set()
        if rpc != READ_MANY:
            run_id = cast(GetRunRequest, request).run_id
            self.calls.append([run_id])
            await self.open.wait()
            return Run(etag=run_id)
        reads = cast(ReadManyRequest, request).reads
        self.key_reads += reads
        run_ids = [GetRunRequest.FromString(read.request).run_id for read in reads]
        self.calls.append(run_ids)
        await self.open.wait()
        if self.fails is not None:
            raise self.fails
        return ReadManyResponse(answers=map(self._answer, run_ids))

    def _answer(self, run_id: str) -> KeyReadAnswer:
        if run_id == "run_refused":
            status = Status(code=5, message="for a person")
            status.details.add().Pack(ErrorInfo(reason="RUN_NOT_FOUND", domain="workflow-api"))
            return KeyReadAnswer(refusal=status.SerializeToString())
        if run_id == "run_broken":
            return KeyReadAnswer(response=b"\xff")
        return KeyReadAnswer(response=Run(etag=run_id).SerializeToString())


def in_loop(use: Callable[[ReadBatcher, Backend], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        backend = Backend()
        async with asyncio.timeout(60):
            await use(ReadBatcher(backend.call), backend)

    asyncio.run(run())


def read(reads: ReadBatcher, run_id: str) -> "asyncio.Task[Message]":
    return asyncio.ensure_future(reads.unary(GET_RUN, GetRunRequest(run_id=run_id), METADATA, 60))


async def fill(reads: ReadBatcher, backend: Backend) -> list["asyncio.Task[Message]"]:
    """Has two calls under way, each with one read."""
    backend.open.clear()
    under_way = []
    for number in range(2):
        under_way.append(read(reads, f"run_first_{number}"))
        await asyncio.wait_for(backend.called.wait(), 60)
        backend.called.clear()
    return under_way


async def tags(tasks: list["asyncio.Task[Message]"]) -> list[str]:
    return [cast(Run, each).etag if isinstance(each, Message) else str(each) for each in await settled(tasks)]


async def settled(tasks: list["asyncio.Task[Message]"]) -> list[Message | BaseException]:
    return await asyncio.gather(*tasks, return_exceptions=True)


def test_reads_of_one_moment_are_one_call_and_each_has_its_own_answer() -> None:
    async def use(reads: ReadBatcher, backend: Backend) -> None:
        assert await tags([read(reads, f"run_{number}") for number in range(3)]) == ["run_0", "run_1", "run_2"]
        assert backend.calls == [["run_0", "run_1", "run_2"]]
        assert [(each.rpc, each.key_id, each.request_id) for each in backend.key_reads] == [
            (GET_RUN, "ak_1", "r_1")
        ] * 3

    in_loop(use)


def test_a_read_alone_is_a_call_of_its_own_rpc() -> None:
    async def use(reads: ReadBatcher, backend: Backend) -> None:
        assert await tags([read(reads, "run_1")]) == ["run_1"]
        assert (backend.calls, backend.key_reads) == ([["run_1"]], [])

    in_loop(use)


def test_reads_that_come_while_calls_are_under_way_are_made_together_after_them() -> None:
    async def use(reads: ReadBatcher, backend: Backend) -> None:
        under_way = await fill(reads, backend)
        later = [read(reads, f"run_{number}") for number in range(40)]
        await asyncio.sleep(0)
        backend.open.set()
        assert len(await tags(under_way)) == 2
        assert await tags(later) == [f"run_{number}" for number in range(40)]
        assert [len(call) for call in backend.calls] == [1, 1, 16, 16, 8]

    in_loop(use)


def test_a_refusal_is_that_of_its_read_alone() -> None:
    async def use(reads: ReadBatcher, _: Backend) -> None:
        refused, answered, broken = await settled(
            [read(reads, run_id) for run_id in ("run_refused", "run_1", "run_broken")]
        )
        assert isinstance(refused, Refusal)
        assert refused.code == "run_not_found"
        assert answered == Run(etag="run_1")
        assert isinstance(broken, Refusal)
        assert broken.code == "runtime_error"

    in_loop(use)


def test_calls_that_hang_do_not_hold_up_the_reads_after_them() -> None:
    async def use(reads: ReadBatcher, backend: Backend) -> None:
        under_way = await fill(reads, backend)
        hanging, backend.open = backend.open, asyncio.Event()
        backend.open.set()
        assert await tags([read(reads, "run_1"), read(reads, "run_2")]) == ["run_1", "run_2"]
        assert not any(task.done() for task in under_way)
        hanging.set()
        assert await tags(under_way) == ["run_first_0", "run_first_1"]

    in_loop(use)


def test_where_no_reads_are_made_together_each_is_made_alone_and_no_other_is_gathered_for_a_while() -> None:
    async def use(reads: ReadBatcher, backend: Backend) -> None:
        backend.fails = NotServedError()
        assert reads.takes(GET_RUN, METADATA)
        assert await tags([read(reads, "run_1"), read(reads, "run_2")]) == ["run_1", "run_2"]
        assert backend.calls == [["run_1", "run_2"], ["run_1"], ["run_2"]]
        assert not reads.takes(GET_RUN, METADATA)

    in_loop(use)


def test_reads_that_a_backend_does_not_make_together_are_made_alone() -> None:
    async def use(reads: ReadBatcher, backend: Backend) -> None:
        backend.fails = Refusal("invalid_request")
        assert await tags([read(reads, "run_1"), read(reads, "run_2")]) == ["run_1", "run_2"]
        assert reads.takes(GET_RUN, METADATA)

    in_loop(use)


@pytest.mark.parametrize("error", [Refusal("runtime_unreachable"), ValueError("unexpected")])
def test_what_ends_a_call_ends_every_read_in_it(error: Exception) -> None:
    async def use(reads: ReadBatcher, backend: Backend) -> None:
        backend.fails = error
        assert await settled([read(reads, "run_1"), read(reads, "run_2")]) == [error, error]

    in_loop(use)


def test_a_read_that_nobody_waits_for_any_more_is_left_out() -> None:
    async def use(reads: ReadBatcher, backend: Backend) -> None:
        under_way = await fill(reads, backend)
        gone, stays = read(reads, "run_gone"), read(reads, "run_stays")
        await asyncio.sleep(0)
        gone.cancel()
        backend.open.set()
        assert await tags([stays]) == ["run_stays"]
        await settled([*under_way, gone])
        assert backend.calls[2:] == [["run_stays"]]

    in_loop(use)


@pytest.mark.parametrize(
    ("rpc", "metadata"),
    [
        (GET_RUN, ()),
        (GET_RUN, ((KEY_ID, ""),)),
        ("/workflow_api.v1.RunsService/ListRuns", METADATA),
        ("/workflow_api.v1.DeploymentService/GetHealth", METADATA),
        ("/workflow_api.v1.RunsService/CancelRun", METADATA),
    ],
    ids=["no key", "an empty key", "a list", "a public read", "a change"],
)
def test_only_point_reads_of_keys_are_gathered(rpc: str, metadata: Metadata) -> None:
    async def use(reads: ReadBatcher, _: Backend) -> None:
        assert not reads.takes(rpc, metadata)

    in_loop(use)
