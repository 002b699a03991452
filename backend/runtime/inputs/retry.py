"""Patience with a store that throttles or fails for a while, of threads that end with their run."""

import logging
import random
import threading
import time
from collections.abc import Callable
from typing import Final, TypeVar

from backend import retry
from backend.connectors.s3_errors import loggable, may_pass

T = TypeVar("T")

_LOOK_SECONDS: Final = 0.1

_LOG = logging.getLogger(__name__)


class CopyError(ValueError):
    """An object is not what was listed, or copying was ended; the message says which and how."""


class EndedError(Exception):
    """Another thread failed."""


class Patience:
    """What the threads that copy one input share: nothing goes on once `stop` is set or one of them failed."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self._failed = threading.Event()

    def insist(self, ask: Callable[[], T], what: str) -> T:
        """What `ask` gives, tried again about a minute long; `what` names it in the log.

        Raises:
            CopyError, EndedError: as `check`, also while it waits.
        """
        end: float | None = None
        pause = retry.FIRST_PAUSE
        while True:
            self.check()
            try:
                return ask()
            except Exception as error:
                now = time.monotonic()
                end = now + retry.SECONDS if end is None else end
                if now >= end or not may_pass(error):
                    raise
                _LOG.warning("%s: %s, tried again for %.0f s", what, loggable(error), end - now)
            # Threads that were throttled together do not come back together.
            self._wait(min(pause, end - now) * random.uniform(0.75, 1.25))  # noqa: S311 - no secret
            pause = min(2 * pause, retry.LONGEST_PAUSE)

    def check(self) -> None:
        """Raises where nothing is to go on.

        Raises:
            CopyError: `stop` was set.
            EndedError: another thread failed.
        """
        if self._stop.is_set():
            raise CopyError("the run was stopped")
        if self._failed.is_set():
            raise EndedError

    def fail(self) -> None:
        """Ends all threads."""
        self._failed.set()

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.check()
            self._stop.wait(min(left, _LOOK_SECONDS))
