"""Calls that wait for a commit without a thread: answers, time-outs, and one wake for all that end together."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from contract.channel.pending_calls import PendingCalls
from workflow_api.v1 import runs_pb2


class Call:
    """A call that ends when `end` is called."""

    def __init__(self, run_id: str) -> None:
        self._message = runs_pb2.GetRunRequest(run_id=run_id)
        self._action: Callable[[], None] | None = None

    def call_back(self, action: Callable[[], None]) -> None:
        self._action = action

    def end(self) -> None:
        assert self._action is not None
        self._action()

    def answer(self) -> Any:
        return self._message


class CountingLoop(asyncio.SelectorEventLoop):
    """Counts how often another thread wakes it."""

    wakes = 0

    def call_soon_threadsafe(self, *args: Any, **context: Any) -> asyncio.Handle:  # type: ignore[override]  # passed on
        self.wakes += 1
        return super().call_soon_threadsafe(*args, **context)


def end_all(calls: list[Call]) -> None:
    for call in reversed(calls):
        call.end()


def test_each_call_has_its_own_answer_and_all_that_end_together_wake_the_loop_once() -> None:
    calls = [Call(str(number)) for number in range(20)]

    async def run() -> list[Any]:
        pending = PendingCalls()
        waiting = [asyncio.create_task(pending.answer(call, 60)) for call in calls]
        await asyncio.sleep(0)
        thread = threading.Thread(target=end_all, args=(calls,))
        thread.start()
        # The loop has no turn meanwhile.
        thread.join()
        return await asyncio.gather(*waiting)

    loop = CountingLoop()
    answers = loop.run_until_complete(run())
    loop.close()
    assert [answer.run_id for answer in answers] == [str(number) for number in range(20)]
    assert loop.wakes == 1


def test_a_call_that_takes_too_long_is_given_up_and_may_end_later() -> None:
    late = Call("late")

    async def run() -> Any:
        pending = PendingCalls()
        with pytest.raises(TimeoutError):
            await pending.answer(late, 0.01)
        late.end()
        begun = asyncio.create_task(pending.answer(in_time, 60))
        await asyncio.sleep(0)
        in_time.end()
        return await begun

    in_time = Call("in time")
    assert asyncio.run(run()).run_id == "in time"
