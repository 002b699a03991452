"""Bounds the number of connections."""

from collections.abc import Iterable
from typing import Final, Generic, Protocol, TypeVar

# Somewhat more than necessary are evicted together, so that connections are not sorted for every new one.
_SLACK: Final = 0.05


class Waiting(Protocol):
    """A connection whose caller may keep the server waiting."""

    @property
    def waiting_since(self) -> float:
        """Time of the loop's clock; 0 while a request is being served."""
        ...


class Evictable(Waiting, Protocol):
    """A connection that can be ended in favour of another."""

    def evict(self) -> None:
        """Ends the connection."""
        ...


C = TypeVar("C", bound=Evictable)
W = TypeVar("W", bound=Waiting)


class ConnectionLimiter(Generic[C]):
    """At most `limit` connections; a new one replaces those that have kept the server waiting longest.

    A connection whose request is being served is never evicted.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.connections: set[C] = set()
        self.evicted = 0
        """How many were evicted or refused so far."""

    def admit(self, newcomer: C) -> bool:
        """Admits a connection and evicts others for it; if all others are being served, evicts it instead.

        Returns whether it was admitted.
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
        """Forgets a connection that has ended."""
        self.connections.discard(connection)


def longest_waiting(connections: Iterable[W]) -> list[W]:
    """Returns the connections whose callers keep the server waiting, the longest wait first."""
    waiting = ((connection.waiting_since, connection) for connection in connections)
    return [connection for since, connection in sorted(waiting, key=lambda pair: pair[0]) if since]
