"""How many callers an edge keeps, and how much of theirs; where room is short, who keeps it waiting longest goes.

A caller keeps the edge waiting while it has sent no request or half of one, and while it does not take its answer.
Whose call is under way is never evicted.
"""

import logging
from collections.abc import Callable
from typing import Final, Protocol

from edge import metrics
from edge.http.connection_limiter import ConnectionLimiter, Evictable, longest_waiting
from telemetry import Family

# How far below the bound the bytes are brought, so that a crowd is not sorted for every few of them.
_SLACK: Final = 0.05
# What a caller may always keep here, so that nobody's small call fails for others' large ones.
_FEW_BYTES: Final = 16_384
# Who is prompt is not sent away.
_PATIENCE_SECONDS: Final = 1.0

_LOG = logging.getLogger(__name__)


class Guest(Evictable, Protocol):
    """One caller's connection."""

    held: int
    """Bytes kept of it: a request or an answer."""

    def lose_patience(self) -> None:
        """Wait no longer for what is expected of it; it may still be told so."""
        ...


class Room(ConnectionLimiter[Guest]):
    """The callers of one edge."""

    def __init__(self, most_guests: int, most_bytes: int, clock: Callable[[], float]) -> None:
        """Take how many callers and bytes there is room for, and the loop's clock."""
        super().__init__(most_guests)
        self._clock = clock
        self._most_bytes = most_bytes
        self._held = 0
        self._logged = 0

    def leave(self, connection: Guest) -> None:
        """Forget a caller that has gone."""
        super().leave(connection)
        self.release(connection)

    def hold(self, guest: Guest, size: int) -> bool:
        """Keep so many bytes more of a caller; return whether there is room for them, as there always is for a few."""
        guest.held += size
        self._held += size
        if self._held <= self._most_bytes or guest.held <= _FEW_BYTES:
            return True
        enough, late = self._most_bytes * (1 - _SLACK), self._clock() - _PATIENCE_SECONDS
        for other in longest_waiting(other for other in self.connections if other.held and other is not guest):
            if self._held <= enough or other.waiting_since > late:
                break
            self.release(other)
            self.evicted += 1
            other.lose_patience()
        return self._held <= self._most_bytes

    def release(self, guest: Guest, size: int | None = None) -> None:
        """Forget so many bytes of a caller, or all that is kept."""
        gone = guest.held if size is None else min(size, guest.held)
        self._held -= gone
        guest.held -= gone

    def measured(self) -> list[Family]:
        """Return how full it is, and how many were evicted."""
        return [
            metrics.CONNECTIONS.with_value(len(self.connections)),
            metrics.CONNECTIONS_LIMIT.with_value(self.limit),
            metrics.HELD.with_value(self._held),
            metrics.HELD_LIMIT.with_value(self._most_bytes),
            metrics.SENT_AWAY.with_value(self.evicted),
        ]

    def tell(self) -> None:
        """Log how many were evicted; a crowd is told in few lines."""
        if self.evicted > 2 * self._logged:
            self._logged = self.evicted
            _LOG.warning("for want of room %d callers that kept this edge waiting were sent away so far", self._logged)
