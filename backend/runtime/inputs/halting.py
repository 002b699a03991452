"""Retries of the threads that copy one input, which end together."""

import threading
import time
from collections.abc import Callable
from typing import Final, TypeVar

from backend.connectors.s3_errors import loggable, may_pass
from backend.retry import Backoff, HaltedError, RetryPolicy

T = TypeVar("T")

STORE_RETRY: Final = RetryPolicy(
    retry_on=may_pass,
    # Threads that were throttled together do not come back together.
    backoff=Backoff(first_seconds=1.0, longest_seconds=30.0, jitter=0.25),
    seconds=60.0,
    describe=loggable,
)
"""For a store that throttles or fails for a while."""

_POLL_SECONDS: Final = 0.1


class CopyError(ValueError):
    """An object is not what was listed, or copying was stopped; the message says which and how."""


class OtherThreadFailedError(Exception):
    """Another thread that copies the same input failed."""


class CopyHalt:
    """Ends the threads that copy one input once `stop` is set or one of them failed."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self._failed = threading.Event()

    def fail(self) -> None:
        """Ends all threads because the calling one failed."""
        self._failed.set()

    def is_set(self) -> bool:
        """Returns whether the threads are to end."""
        return self._stop.is_set() or self._failed.is_set()

    def wait(self, timeout: float) -> bool:
        """Waits for so many seconds, or until the threads are to end; returns whether they are."""
        until = time.monotonic() + timeout
        while not self.is_set() and (left := until - time.monotonic()) > 0:
            self._stop.wait(min(left, _POLL_SECONDS))
        return self.is_set()

    def check(self) -> None:
        """Raises where the threads are to end.

        Raises:
            CopyError: `stop` was set.
            OtherThreadFailedError: another thread failed.
        """
        if self._stop.is_set():
            raise CopyError("the run was stopped")
        if self._failed.is_set():
            raise OtherThreadFailedError

    def retry(self, work: Callable[[], T], what: str) -> T:
        """Returns what `work` returns, retried by STORE_RETRY; raises as `check`, also between two tries."""
        try:
            return STORE_RETRY.run_blocking(work, what, halt=self)
        except HaltedError:
            self.check()
            raise
