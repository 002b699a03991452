"""Blocking calls beside the event loop.

Calls that end close together wake the loop once, and a time-out is one timer: a call costs a third of what
`run_in_executor` within `asyncio.timeout` costs. (`python -m benchmarks`: lists and starts.)
"""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Final, NamedTuple

from contract.loop_deliveries import LoopDeliveries

Work = Callable[[], Any]


class _Job(NamedTuple):
    work: Work
    done: "asyncio.Future[Any]"


class ThreadsClosedError(RuntimeError):
    """The threads are closed: the work has not begun, and never will."""


class ThreadCalls:
    """Up to so many threads, started as they are needed, that work for one event loop."""

    def __init__(self, threads: int, name: str) -> None:
        self._most: Final = threads
        self._name = name
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._ended = LoopDeliveries[tuple[_Job, Any, Exception | None]](self._deliver)
        self._threads: list[threading.Thread] = []
        self._under_way = 0
        self._closed = False

    async def run(self, work: Work, seconds: float) -> Any:
        """Returns what `work` returns; raises what it raises.

        Work that has not begun when the time is over or the caller is cancelled is left out.

        Raises:
            TimeoutError: it took longer than `seconds`; what has begun goes on.
            ThreadsClosedError: the threads are closed, or were while it waited for one.
            RuntimeError: the machine cannot start a thread.
        """
        if self._closed:
            raise ThreadsClosedError
        loop = asyncio.get_running_loop()
        job = _Job(work, loop.create_future())
        if self._under_way >= len(self._threads) < self._most:
            thread = threading.Thread(target=self._work, args=(loop,), name=f"{self._name}_{len(self._threads)}")
            # Counted only once it runs: a machine that lacks a thread now may have one later.
            thread.start()
            self._threads.append(thread)
        self._under_way += 1
        self._jobs.put(job)
        timer = loop.call_later(seconds, _time_out, job.done)
        try:
            return await job.done
        finally:
            timer.cancel()

    def close(self) -> None:
        """Ends each thread after the call that it has begun; calls that wait for a thread are refused."""
        self._closed = True
        for _ in self._threads:
            self._jobs.put(None)

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        while (job := self._jobs.get()) is not None:
            value: Any = None
            error: Exception | None = None
            if self._closed:
                error = ThreadsClosedError()
            elif not job.done.done():
                try:
                    value = job.work()
                except Exception as raised:  # noqa: BLE001 - it is the caller's
                    error = raised
            if not self._ended.add(loop, (job, value, error)):
                return

    def _deliver(self, ended: tuple[_Job, Any, Exception | None]) -> None:
        job, value, error = ended
        self._under_way -= 1
        if job.done.done():
            return
        if error is not None:
            job.done.set_exception(error)
        else:
            job.done.set_result(value)


def _time_out(done: "asyncio.Future[Any]") -> None:
    if not done.done():
        done.set_exception(TimeoutError())
