"""The future of a change that waits for its commit, without a lock and a condition of its own.

One of `concurrent.futures` can be cancelled and waited for by any thread: it makes a condition and its lock, and takes
them four times. Few threads wait for a commit; most are called back. Without these a start takes a fiftieth fewer
instructions. (`python -m benchmarks`: POST start.)
"""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, TypeVar

T = TypeVar("T")

_LOG = logging.getLogger(__name__)
# Held for a moment by whoever ends a change, is called back or begins to wait.
_LOCK: Final = threading.Lock()


class CommitFuture(Future[T]):
    """A future that nobody can cancel."""

    def __init__(self) -> None:
        # What the base class makes is what this one saves.
        self._over = False
        self._value: Any = None
        self._failure: BaseException | None = None
        self._actions: list[Callable[[Future[T]], object]] = []
        self._waiting: threading.Event | None = None

    def __repr__(self) -> str:
        # That of the base class reads what this one does not make.
        return f"<{type(self).__name__} {'over' if self._over else 'pending'}>"

    def cancel(self) -> bool:
        """Returns False: the change goes on."""
        return False

    def cancelled(self) -> bool:
        """Returns False."""
        return False

    def running(self) -> bool:
        """Returns whether it is not over."""
        return not self._over

    def done(self) -> bool:
        """Returns whether it is over."""
        return self._over

    def add_done_callback(self, fn: Callable[[Future[T]], object]) -> None:
        """Calls the function once with this future: at its end, or at once where it is over."""
        with _LOCK:
            if not self._over:
                self._actions.append(fn)
                return
        self._call(fn)

    def result(self, timeout: float | None = None) -> T:
        """Returns the result, waiting for it.

        Raises:
            TimeoutError: it is not over after so many seconds.
        """
        failure = self.exception(timeout)
        if failure is None:
            value: T = self._value
            return value
        try:
            raise failure
        finally:
            # The traceback of the failure leads here: no cycle is left to the garbage collector.
            del failure

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Returns what the change raised, or None, waiting for it; raises as `result`."""
        if not self._over:
            with _LOCK:
                waiting = self._waiting = self._waiting or threading.Event()
                if self._over:
                    waiting.set()
            if not waiting.wait(timeout):
                raise TimeoutError
        return self._failure

    def set_result(self, result: T) -> None:
        """Ends it; for the writer alone, once."""
        self._value = result
        self._end()

    def set_exception(self, exception: BaseException | None) -> None:
        """Ends it; for the writer alone, once."""
        self._failure = exception
        self._end()

    def _end(self) -> None:
        with _LOCK:
            self._over = True
            actions, self._actions = self._actions, []
            waiting = self._waiting
        if waiting is not None:
            waiting.set()
        for action in actions:
            self._call(action)

    def _call(self, action: Callable[[Future[T]], object]) -> None:
        try:
            action(self)
        except Exception:  # noqa: BLE001 - the writer must live on
            _LOG.exception("What was to be called after a commit failed")
