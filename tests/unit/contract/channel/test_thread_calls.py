"""Blocking calls beside the event loop: results, errors, time-outs, and an end."""

import asyncio
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from contract.channel.thread_calls import ThreadCalls, ThreadsClosedError


@pytest.fixture(name="calls")
def _calls() -> Iterator[ThreadCalls]:
    calls = ThreadCalls(2, "test")
    yield calls
    calls.close()
    for thread in calls._threads:
        thread.join(10)
        assert not thread.is_alive()


def test_each_caller_has_the_result_or_the_error_of_its_own_work(calls: ThreadCalls) -> None:
    def divided(number: int) -> float:
        return 1 / number

    async def run() -> list[Any]:
        return await asyncio.gather(
            *(calls.run(partial(divided, number), 10) for number in range(50)), return_exceptions=True
        )

    first, *others = asyncio.run(run())
    assert isinstance(first, ZeroDivisionError)
    assert others == [1 / number for number in range(1, 50)]
    assert len(calls._threads) == 2


def test_a_thread_that_cannot_be_started_is_tried_again(calls: ThreadCalls, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def run() -> Any:
        with monkeypatch.context() as short:
            short.setattr(threading.Thread, "start", fail)
            for _ in range(3):
                with pytest.raises(RuntimeError, match="can't start"):
                    await calls.run(lambda: "never", 10)
        return await calls.run(lambda: "done", 10)

    assert asyncio.run(run()) == "done"


def test_work_that_waits_longer_than_its_time_for_a_thread_never_begins(calls: ThreadCalls) -> None:
    let_go, begun = threading.Event(), []

    async def run() -> None:
        busy = [asyncio.create_task(calls.run(lambda: let_go.wait(10), 10)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(TimeoutError):
            await calls.run(lambda: begun.append("late"), 0.01)
        cancelled = asyncio.create_task(calls.run(lambda: begun.append("cancelled"), 10))
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.gather(cancelled, return_exceptions=True)
        let_go.set()
        assert await asyncio.gather(*busy) == [True, True]
        await calls.run(lambda: begun.append("last"), 10)

    asyncio.run(run())
    assert begun == ["last"]


def test_closed_threads_take_no_work(calls: ThreadCalls) -> None:
    calls.close()
    with pytest.raises(ThreadsClosedError):
        asyncio.run(calls.run(lambda: None, 1))


def test_work_that_waits_for_a_thread_when_they_are_closed_is_refused_and_never_begins(calls: ThreadCalls) -> None:
    let_go, begun = threading.Event(), []
    together = threading.Barrier(3)

    def hold() -> bool:
        together.wait(10)
        return let_go.wait(10)

    async def run() -> None:
        busy = [asyncio.create_task(calls.run(hold, 60)) for _ in range(2)]
        await asyncio.to_thread(together.wait, 10)
        waiting = asyncio.create_task(calls.run(lambda: begun.append("late"), 60))
        await asyncio.sleep(0)
        calls.close()
        let_go.set()
        assert await asyncio.gather(*busy) == [True, True]
        with pytest.raises(ThreadsClosedError):
            await waiting

    asyncio.run(run())
    assert begun == []
