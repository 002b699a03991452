"""Waits of calls: answers after a commit and pauses of streams, which need no thread, and threads that watch keys."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, Generic, NamedTuple, TypeVar

M = TypeVar("M", bound=Callable[..., Any])
T = TypeVar("T")

_DEFERS: Final = "_defers"
_PAUSES: Final = "_pauses"


class Deferred(NamedTuple, Generic[T]):
    """A change under way (`Database.write_soon`), and the function that makes the answer from the future's outcome.

    The function is called once, after the commit; an exception that it raises is the answer.
    """

    change: "Future[Any]"
    answer: Callable[["Future[Any]"], T]

    @staticmethod
    def done(answer: T) -> "Deferred[T]":
        """Returns a Deferred that waits for nothing."""
        nothing: Future[None] = Future()
        nothing.set_result(None)
        return Deferred(nothing, lambda _: answer)


def deferring(quick: Callable[[Any, Any], bool]) -> Callable[[M], M]:
    """Marks a unary method that returns a `Deferred`.

    An event loop may call it with a request for which `quick`, given the servicer as well, says that it does little
    before it defers; other requests are for threads.
    """

    def mark(method: M) -> M:
        setattr(method, _DEFERS, quick)
        return method

    return mark


def quick_of(method: object) -> Callable[[Any, Any], bool] | None:
    """Returns the `quick` of a method marked by `deferring`, else None."""
    return getattr(method, _DEFERS, None)


class Pause(ABC):
    """An event that a stream waits for. Thread-safe."""

    @abstractmethod
    def wait(self, seconds: float) -> None:
        """Returns once the event has happened, or after `seconds`."""

    @abstractmethod
    def add_done_callback(self, action: Callable[[], None]) -> None:
        """Calls the action once, when the event happens; at once if it has happened."""

    @abstractmethod
    def wake(self) -> None:
        """Lets the stream go on without the event."""


def pausing(method: M) -> M:
    """Marks a streaming method that yields pauses among its messages."""
    setattr(method, _PAUSES, True)
    return method


def is_pausing(method: object) -> bool:
    """Returns whether a method is marked by `pausing`."""
    return getattr(method, _PAUSES, False)


class KeyChanges:
    """A counter of changes that threads wait on; no waiter misses a change after the count that it read."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self.count = 0
        """The number of changes so far, an argument of `wait`."""
        self.ended = False
        """True once waiting has ended for good."""

    def end(self) -> None:
        """Wakes all waiters for the last time."""
        self.ended = True
        self.notify()

    def notify(self) -> None:
        """Counts a change and wakes all waiters."""
        with self._condition:
            self.count += 1
            self._condition.notify_all()

    def wait(self, count: int, timeout: float) -> None:
        """Returns at the next change after the number `count`, or after `timeout` seconds."""
        with self._condition:
            self._condition.wait_for(lambda: self.count != count, timeout)
