"""Bounds the bytes that a server keeps for requests and answers under way."""

from collections.abc import Callable, Collection
from typing import Final, Generic, Protocol, TypeVar

from contract.connections.connection_limiter import Waiting, longest_waiting

# When the limit is reached, somewhat more is freed, so that connections are not sorted for every few bytes.
_SLACK: Final = 0.05
# Any connection may hold these, so that small requests succeed while others hold large ones.
_ALWAYS_ALLOWED_BYTES: Final = 16_384
# Callers that have kept the server waiting for less are not evicted.
_GRACE_SECONDS: Final = 1.0


class Holder(Waiting, Protocol):
    """A connection that bytes are kept for."""

    held: int
    """How many."""

    def stop_waiting(self) -> None:
        """Ends the wait for the caller; a request under way may still be answered."""
        ...


H = TypeVar("H", bound=Holder)


class BufferLimiter(Generic[H]):
    """At most `limit` bytes; when it is reached, those that have kept the server waiting longest lose theirs."""

    def __init__(self, limit: int, connections: Collection[H], clock: Callable[[], float]) -> None:
        """Takes the limit, a live view of the connections, and the loop's clock."""
        self.limit = limit
        self.held = 0
        self.evicted = 0
        """How many connections lost their bytes so far."""
        self._connections = connections
        self.clock = clock

    def hold(self, connection: H, size: int) -> bool:
        """Counts bytes for a connection; returns whether they may be kept."""
        connection.held += size
        self.held += size
        if self.held <= self.limit or connection.held <= _ALWAYS_ALLOWED_BYTES:
            return True
        enough, late = self.limit * (1 - _SLACK), self.clock() - _GRACE_SECONDS
        for other in longest_waiting(other for other in self._connections if other.held and other is not connection):
            if self.held <= enough or other.waiting_since > late:
                break
            self.release(other)
            self.evicted += 1
            other.stop_waiting()
        return self.held <= self.limit

    def release(self, connection: H, size: int | None = None) -> None:
        """Stops counting bytes of a connection, all of them by default."""
        freed = connection.held if size is None else min(size, connection.held)
        self.held -= freed
        connection.held -= freed
