"""Jobs that make slow previews, each once while callers wait briefly, and the storage of their results with the run."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing
from typing import Final, Generic, TypeVar

from google.protobuf.message import Message

from backend.services.dependencies import Services
from backend.services.runs import erase_sql
from backend.storage.database import run_of
from backend.storage.object_keys import object_key
from backend.storage.objects import ObjectStore

T = TypeVar("T")

_THREADS: Final = 2
WAIT_SECONDS: Final = 3.0
"""Seconds that a caller waits before the answer is to ask again."""
_MOST_WAITING: Final = 2
"""Most waiting callers: each holds a thread that calls of the public API need too; further callers must ask again."""


FAILURE_SECONDS: Final = 60.0
"""Seconds for which callers get the error of a job that failed, before one begins it again: a job may take longer to
fail than its callers wait, and each would be told to ask again."""
_MOST_RESULTS: Final = 32
"""Most results kept for callers who have not asked again; above it, finished results are dropped."""


class Preparations(Generic[T]):
    """Runs jobs by name in a few threads, one job of a name at a time. Thread-safe."""

    def __init__(self, name: str, now: Callable[[], float] = time.monotonic) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix=name)
        self._now = now
        self._lock = threading.Lock()
        self._making: dict[str, Future[T]] = {}
        self._failed_at: dict[str, float] = {}
        self._waiting = threading.Semaphore(_MOST_WAITING)

    def result(self, name: str, make: Callable[[], T]) -> T | None:
        """Returns the result of `make`, or None if it is not ready within seconds: the caller asks again.

        An error of `make` is raised to every caller of the next minute.
        """
        making = self._begin(name, make)
        if not self._wait_until_done(making):
            return None
        with self._lock:
            # Another caller may have taken this result meanwhile, and a later one begun the job again.
            if self._making.get(name) is making:
                if making.exception() is None:
                    del self._making[name]
                else:
                    self._failed_at.setdefault(name, self._now())
        return making.result()

    def close(self) -> None:
        """Waits for jobs under way, and drops jobs that have not begun. Idempotent."""
        self._threads.shutdown(cancel_futures=True)

    def _wait_until_done(self, making: Future[T]) -> bool:
        """Waits briefly for the job, unless enough callers wait already; returns whether it is done."""
        if not making.done() and self._waiting.acquire(blocking=False):
            try:
                wait({making}, WAIT_SECONDS)
            finally:
                self._waiting.release()
        return making.done()

    def _begin(self, name: str, make: Callable[[], T]) -> Future[T]:
        """Returns the job under way, or begins it; its result is kept for the next caller, an error for a while."""
        with self._lock:
            if (failed_at := self._failed_at.get(name)) is not None and self._now() - failed_at >= FAILURE_SECONDS:
                self._making.pop(name, None)
                del self._failed_at[name]
            found = self._making.get(name)
            if found is None:
                if len(self._making) >= _MOST_RESULTS:
                    self._making = {each: future for each, future in self._making.items() if not future.done()}
                    self._failed_at.clear()
                found = self._making[name] = self._threads.submit(make)
            return found


M = TypeVar("M", bound=Message)

_SIZE_BYTES: Final = 8


class StoredMessages(Generic[M]):
    """Store of messages of one type, by run and name; a name is a path that this service made."""

    def __init__(self, services: Services, objects: ObjectStore, parse: Callable[[bytes], M]) -> None:
        self._services = services
        self._objects = objects
        self._parse = parse

    def get(self, run_id: str, name: str) -> M | None:
        """Returns a message, or None."""
        key = object_key(run_id, name)
        try:
            size = int.from_bytes(self._read(key, 0, _SIZE_BYTES))
            return self._parse(self._read(key, _SIZE_BYTES, size))
        except KeyError:
            return None

    def put(self, run_id: str, name: str, message: M) -> None:
        """Stores a message."""
        content = message.SerializeToString()
        self._objects.put_bytes(object_key(run_id, name), len(content).to_bytes(_SIZE_BYTES) + content)
        # The run may have been erased meanwhile, and its removal may have come before this object.
        at = self._services.clock()
        self._services.database.write(
            lambda tx: erase_sql.request_removal_again(tx, run_id, at), lock_key=run_of(run_id)
        )

    def _read(self, key: str, offset: int, length: int) -> bytes:
        with closing(self._objects.open_range(key, offset, length)) as parts:
            return b"".join(parts)
