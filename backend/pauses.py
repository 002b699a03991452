"""What a streaming method yields where it has nothing to send, so that it needs no thread until it goes on."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final, TypeVar

M = TypeVar("M", bound=Callable[..., Any])

_MARK: Final = "_pauses"


class Pause(ABC):
    """Something that a stream waits for. From any thread."""

    @abstractmethod
    def wait(self, seconds: float) -> None:
        """Returns once it is there, or after so many seconds."""

    @abstractmethod
    def call_back(self, action: Callable[[], None]) -> None:
        """Calls the action once it is there, once; at once if it is there already."""

    @abstractmethod
    def wake(self) -> None:
        """Lets the stream go on without it."""


def pausing(method: M) -> M:
    """Marks a streaming method that yields pauses among its messages."""
    setattr(method, _MARK, True)
    return method


def is_pausing(method: object) -> bool:
    """Returns whether a method is marked so."""
    return getattr(method, _MARK, False)
