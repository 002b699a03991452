"""Thread that starts child processes."""

import itertools
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class _Job(NamedTuple):
    priority: int
    order: int
    work: Callable[[], Any] | None
    future: Future[Any]


class Spawner:
    """Long-lived thread that starts child processes.

    The kernel sends the parent-death signal of a child when the thread that started it ends. So children outlive the
    threads of requests, and closing the spawner ends them all.
    """

    def __init__(self, name: str) -> None:
        self._jobs: queue.PriorityQueue[_Job] = queue.PriorityQueue()
        self._order = itertools.count()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[], T], *, urgent: bool = True) -> Future[T]:
        """Runs `work` on the spawner's thread; work that is not urgent waits until no urgent work is queued."""
        future: Future[T] = Future()
        self._jobs.put(_Job(0 if urgent else 1, next(self._order), work, future))
        return future

    def close(self) -> None:
        """Finishes the queued work, then ends the thread."""
        self._jobs.put(_Job(2, next(self._order), None, Future()))
        self._thread.join()

    def _run(self) -> None:
        while (job := self._jobs.get()).work is not None:
            if not job.future.set_running_or_notify_cancel():
                continue
            try:
                job.future.set_result(job.work())
            except BaseException as error:  # noqa: BLE001 - raised to the thread that waits for the result
                job.future.set_exception(error)
