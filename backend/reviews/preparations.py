"""Work that somebody waits for: each piece is done once, in a few threads, and asked for until it is done."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Final, Generic, TypeVar

T = TypeVar("T")

_THREADS: Final = 2
# After that the caller is told to ask again.
_WAIT_SECONDS: Final = 3.0
_MOST_WAITING: Final = 2
"""Each holds one of the few threads that calls of the public API need too; whoever comes beside them asks again."""


class Preparations(Generic[T]):
    """Pieces of work by name. Thread-safe."""

    def __init__(self, name: str) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix=name)
        self._lock = threading.Lock()
        self._making: dict[str, Future[T]] = {}
        self._waiting = threading.Semaphore(_MOST_WAITING)

    def result(self, name: str, make: Callable[[], T]) -> T | None:
        """Returns what `make` returns, or None where that is not ready within seconds: ask again.

        Raises what `make` raises, to the next who asks.
        """
        making = self._begin(name, make)
        if not self._is_done(making):
            return None
        with self._lock:
            self._making.pop(name, None)
        return making.result()

    def close(self) -> None:
        """Waits for what is under way, and drops what has not begun; may be repeated."""
        self._threads.shutdown(cancel_futures=True)

    def _is_done(self, making: Future[T]) -> bool:
        """Waits a little for the work under way, unless others wait already; returns whether it is done."""
        if not making.done() and self._waiting.acquire(blocking=False):
            try:
                wait({making}, _WAIT_SECONDS)
            finally:
                self._waiting.release()
        return making.done()

    def _begin(self, name: str, make: Callable[[], T]) -> Future[T]:
        """Returns the work under way, or begins it; it is kept until somebody has asked for it."""
        with self._lock:
            found = self._making.get(name)
            if found is None:
                found = self._making[name] = self._threads.submit(make)
            return found
