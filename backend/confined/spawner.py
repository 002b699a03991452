"""The thread that starts child processes."""

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
    """A long-lived thread that starts child processes.

    A child's "die with the parent" is tied to the thread that started it: children of a thread that ends are killed.
    So closing the spawner ends whatever it started.
    """

    def __init__(self, name: str) -> None:
        self._jobs: queue.PriorityQueue[_Job] = queue.PriorityQueue()
        self._order = itertools.count()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[], T], *, urgent: bool = True) -> Future[T]:
        """Run `work` on the spawner's thread; what is not urgent waits until nothing urgent is queued."""
        future: Future[T] = Future()
        self._jobs.put(_Job(0 if urgent else 1, next(self._order), work, future))
        return future

    def close(self) -> None:
        """Finish what is queued, then end the thread."""
        self._jobs.put(_Job(2, next(self._order), None, Future()))
        self._thread.join()

    def _run(self) -> None:
        while (job := self._jobs.get()).work is not None:
            if not job.future.set_running_or_notify_cancel():
                continue
            try:
                job.future.set_result(job.work())
            except BaseException as error:  # noqa: BLE001 - it belongs to whoever asked
                job.future.set_exception(error)
