"""Bounds how long the caller of a connection may keep the server waiting."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, auto
from time import monotonic
from typing import NamedTuple


class WaitKind(Enum):
    """What a connection is waiting for its caller to do."""

    NOTHING = auto()
    """A request is being served."""
    REQUEST = auto()
    HEAD = auto()
    """The rest of a request line and headers."""
    BODY = auto()
    READER = auto()
    """The caller reading its response."""


class Timeouts(NamedTuple):
    """How long a caller may keep a connection waiting, in seconds; bodies are bounded where they are read."""

    idle: float
    head: float
    stall: float

    def seconds(self, wait_kind: WaitKind) -> float:
        """Returns the bound of one kind of wait."""
        if wait_kind is WaitKind.REQUEST:
            return self.idle
        if wait_kind is WaitKind.HEAD:
            return self.head
        return self.stall if wait_kind is WaitKind.READER else float("inf")


class BoundedConnection:
    """Base of every connection, of the API and of the console: what it waits for, and since when."""

    wait_kind = WaitKind.NOTHING
    waiting_since = 0.0
    """Time of the monotonic clock, in seconds; 0 while a request is being served."""

    def wait_for(self, wait_kind: WaitKind) -> None:
        """Counts the time from now on as the caller's."""
        self.wait_kind = wait_kind
        self.waiting_since = monotonic()

    def end_wait(self) -> None:
        """Counts the time from now on as the server's."""
        self.wait_kind = WaitKind.NOTHING
        self.waiting_since = 0.0

    @contextmanager
    def waiting(self, wait_kind: WaitKind) -> Iterator[None]:
        """Counts the time inside as the caller's."""
        self.wait_for(wait_kind)
        try:
            yield
        finally:
            self.end_wait()

    def evict(self) -> None:
        """Ends the connection."""
        raise NotImplementedError

    def evict_if_overdue(self, now: float, timeouts: Timeouts) -> None:
        """Ends the connection if its caller has exceeded the bound on that kind of wait."""
        if self.waiting_since and now - self.waiting_since > timeouts.seconds(self.wait_kind):
            self.evict()
