"""What a unary method returns whose change is queued but not committed, so that no thread waits for the commit.

Sixteen threads that each wait for a group commit are woken together and fight for the interpreter's lock; the loop of
an edge in the same process is woken once for all answers of a commit. (`python -m benchmarks`: starts.)
"""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, Generic, TypeVar

M = TypeVar("M", bound=Callable[..., Any])
C = TypeVar("C")
T = TypeVar("T")

_MARK: Final = "_defers"


class Deferred(Generic[T]):
    """A change under way, of `Database.write_soon`, and the function that makes the answer of what came of it."""

    __slots__ = ("_answer", "_change")

    def __init__(self, change: "Future[C]", answer: Callable[["Future[C]"], T]) -> None:
        self._change: Future[Any] = change
        self._answer: Callable[[Future[Any]], T] = answer

    @staticmethod
    def done(answer: T) -> "Deferred[T]":
        """Returns one that waits for nothing."""
        nothing: Future[None] = Future()
        nothing.set_result(None)
        return Deferred(nothing, lambda _: answer)

    def call_back(self, action: Callable[[], None]) -> None:
        """Calls the quick action once, after the commit or what took its place; at once if that is over already."""
        self._change.add_done_callback(lambda _: action())

    def answer(self) -> T:
        """Returns the answer, once, after the commit, for which the function waits; raises what the function raises."""
        change = self._change
        # The callbacks of the change lead to this call: the cycle would be left to the garbage collector.
        del self._change
        return self._answer(change)


def deferring(quick: Callable[[Any, Any], bool]) -> Callable[[M], M]:
    """Marks a unary method that returns a `Deferred`.

    An event loop may call it with a request for which `quick`, given the servicer as well, says that it does little
    before it defers; other requests are for threads.
    """

    def mark(method: M) -> M:
        setattr(method, _MARK, quick)
        return method

    return mark


def quick_of(method: object) -> Callable[[Any, Any], bool] | None:
    """Returns what `deferring` was given for a method; None where it is not marked."""
    return getattr(method, _MARK, None)
