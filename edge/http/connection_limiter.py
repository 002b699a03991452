"""A bounded number of connections; where it is reached, those that keep the server waiting longest are evicted."""

from collections.abc import Iterable
from typing import Final, Generic, Protocol, TypeVar

# Those evicted go together with a few more, so that a crowd is not sorted once for every newcomer.
_SLACK: Final = 0.05


class Evictable(Protocol):
    """A connection that can be ended to make room for another."""

    @property
    def waiting_since(self) -> float:
        """Since when the server waits for it, by the loop's clock; 0 while a request of it is under way."""
        ...

    def evict(self) -> None:
        """End the connection."""
        ...


C = TypeVar("C", bound=Evictable)


class ConnectionLimiter(Generic[C]):
    """At most `limit` connections; one with a request under way is never evicted."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.connections: set[C] = set()
        self.evicted = 0
        """How many were evicted or refused so far."""

    def admit(self, newcomer: C) -> bool:
        """Take a connection in; others are evicted for it, or it is itself where all others have requests under way.

        Return whether it was taken in.
        """
        excess = len(self.connections) + 1 - self.limit
        if excess > 0:
            evicted = longest_waiting(self.connections)[: excess + int(self.limit * _SLACK)]
            if len(evicted) < excess:
                evicted.append(newcomer)
            for connection in evicted:
                self.leave(connection)
                self.evicted += 1
                connection.evict()
            if newcomer in evicted:
                return False
        self.connections.add(newcomer)
        return True

    def leave(self, connection: C) -> None:
        """Forget a connection that has ended."""
        self.connections.discard(connection)


def longest_waiting(connections: Iterable[C]) -> list[C]:
    """Return those that the server waits for, the longest first."""
    waiting = ((connection.waiting_since, connection) for connection in connections)
    return [connection for since, connection in sorted(waiting, key=lambda pair: pair[0]) if since]
