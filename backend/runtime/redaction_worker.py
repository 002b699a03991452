"""A process that sweeps, as its owner sees it: one sweep at a time, and a new process where one died."""

import multiprocessing
import os
import resource
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, Final, TypeVar

T = TypeVar("T")

# What the process may take for its data. The allocator of Arrow sets a third of it aside at its first use.
_MEMORY_BYTES: Final = 3 * 2**30
_GLANCE_SECONDS: Final = 0.1


class RedactionError(Exception):
    """A sweep could not be carried out, and nothing of it may be used; the text is worded for a person.

    `model_calls` is how often a model had been asked before.
    """

    def __init__(self, reason: str, model_calls: int = 0) -> None:
        # Both, for it is told by one process to another.
        super().__init__(reason, model_calls)
        self.model_calls = model_calls

    def __str__(self) -> str:
        return str(self.args[0])


class Worker:
    """Hands sweeps to its process. Thread-safe; every call waits for its turn and its end.

    Nothing waits inside the process, so one that dies takes with it the sweep that killed it, and no other.
    """

    def __init__(self, begin: Callable[..., None], *means: Any) -> None:
        self._begin = begin
        self._means = means
        self._turn = threading.Lock()
        self._lock = threading.Lock()
        self._pool: ProcessPoolExecutor | None = None
        self._closed = False

    def do(self, sweep: Callable[..., T], *what: Any, halt: threading.Event | None = None) -> T:
        """What the sweep gives; ended soon after `halt` is set.

        Raises:
            RedactionError: the sweep failed, was ended, or had two processes die.
        """
        with self._taken_turn(halt):
            try:
                return self._tried(sweep, what, halt)
            except BrokenProcessPool:
                # The machine may have been short of memory, so it is worth another try.
                pass
            try:
                return self._tried(sweep, what, halt)
            except BrokenProcessPool:
                raise RedactionError("the process that sweeps died") from None

    @property
    def processes(self) -> list[Any]:
        """The processes that sweep now."""
        with self._lock:
            return [] if self._pool is None else _processes(self._pool)

    def close(self) -> None:
        """Ends the process for good; what it still works on fails, and so does whatever comes."""
        with self._lock:
            self._closed = True
        self._kill()

    def _tried(self, sweep: Callable[..., T], what: tuple[Any, ...], halt: threading.Event | None) -> T:
        pool = self._started()
        try:
            sweeping = pool.submit(sweep, *what)
            self._await(sweeping, halt)
            return sweeping.result()
        except RedactionError as error:
            # Its cause is the other process's traceback, which may quote what was swept.
            raise error from None
        except BrokenProcessPool:
            self._forget(pool)
            raise
        except Exception as error:  # noqa: BLE001 - as above
            raise RedactionError(f"an unexpected failure ({type(error).__name__})") from None

    def _await(self, sweeping: "Future[Any]", halt: threading.Event | None) -> None:
        while halt is not None and not wait([sweeping], timeout=_GLANCE_SECONDS).done:
            if halt.is_set():
                self._kill()
                raise RedactionError("the sweep was ended")

    @contextmanager
    def _taken_turn(self, halt: threading.Event | None) -> Iterator[None]:
        while not self._turn.acquire(timeout=-1 if halt is None else _GLANCE_SECONDS):
            if halt is not None and halt.is_set():
                raise RedactionError("the sweep was ended")
        try:
            yield
        finally:
            self._turn.release()

    def _started(self) -> ProcessPoolExecutor:
        with self._lock:
            if self._closed:
                raise RedactionError("the service ends")
            if self._pool is None:
                self._pool = ProcessPoolExecutor(
                    1,
                    mp_context=multiprocessing.get_context("spawn"),
                    initializer=_bounded,
                    initargs=(self._begin, *self._means),
                )
            return self._pool

    def _kill(self) -> None:
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            for process in _processes(pool):
                process.kill()
            pool.shutdown(wait=True, cancel_futures=True)

    def _forget(self, pool: ProcessPoolExecutor) -> None:
        with self._lock:
            if self._pool is pool:
                self._pool = None
        pool.shutdown(wait=False)


def _processes(pool: ProcessPoolExecutor) -> list[Any]:
    # There is no public way to end one early.
    return list((pool._processes or {}).values())  # noqa: SLF001


def _bounded(begin: Callable[..., None], *means: Any) -> None:
    """The first that the process does."""
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    bound = _MEMORY_BYTES if most == resource.RLIM_INFINITY else min(_MEMORY_BYTES, most)
    resource.setrlimit(resource.RLIMIT_DATA, (bound, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _end_with_parent()
    begin(*means)


def _end_with_parent() -> None:
    """The service may be killed at any moment; its sweep must not go on."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def end() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=end, daemon=True).start()
