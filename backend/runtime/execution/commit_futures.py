"""Changes of the embedded database as futures of an event loop, without a thread that waits for the commit.

All that one group commit ends wakes the loop once. A thread for each change cost a start 75 us of processor time on the
thread, and 100 on loop and writer to hand over. (`python -m benchmarks`: starts.)
"""

import asyncio
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from contract.loop_deliveries import LoopDeliveries

T = TypeVar("T")


class CommitFutures:
    """The changes under way of one event loop."""

    def __init__(self) -> None:
        self._ended = LoopDeliveries[tuple[asyncio.Future[Any], Future[Any]]](_settle)

    def of(self, change: Future[T]) -> "asyncio.Future[T]":
        """Returns the future of a change on the running loop; to cancel it leaves the change under way."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[T] = loop.create_future()
        change.add_done_callback(partial(self._end, loop, waiter))
        return waiter

    def _end(self, loop: asyncio.AbstractEventLoop, waiter: "asyncio.Future[Any]", change: Future[Any]) -> None:
        self._ended.add(loop, (waiter, change))


def _settle(ended: "tuple[asyncio.Future[Any], Future[Any]]") -> None:
    waiter, change = ended
    if waiter.done():
        return
    error = change.exception()
    if error is None:
        waiter.set_result(change.result())
    else:
        waiter.set_exception(error)
