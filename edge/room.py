"""How many callers an edge keeps, and how much of theirs; where room is short, who keeps it waiting longest goes.

A caller keeps the edge waiting while it has sent no request or half of one, and while it does not take its answer.
Whose call is under way is never turned out.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from edge import metrics
from measures import Family

# Who is turned out goes together with others, so that a crowd is not sorted once for every newcomer.
_SLACK: Final = 0.05
# What a caller may always keep here, so that nobody's small call fails for others' large ones.
_FEW_BYTES: Final = 16_384
# Who is prompt is not sent away.
_PATIENCE_SECONDS: Final = 1.0

_LOG = logging.getLogger(__name__)


class Guest(Protocol):
    """One caller's connection."""

    waiting_since: float
    """Since when it keeps the edge waiting, by the loop's clock; 0 while it does not."""

    held: int
    """Bytes kept of it: a request or an answer."""

    def turn_out(self) -> None:
        """End the connection."""
        ...

    def lose_patience(self) -> None:
        """Wait no longer for what is expected of it; it may still be told so."""
        ...


class Room:
    """The callers of one edge."""

    def __init__(self, most_guests: int, most_bytes: int, clock: Callable[[], float]) -> None:
        """Take how many callers and bytes there is room for, and the loop's clock."""
        self._clock = clock
        self._most_guests = most_guests
        self._most_bytes = most_bytes
        self._guests: set[Guest] = set()
        self._held = 0
        self._sent_away = 0
        self._told = 0

    def admit(self, newcomer: Guest) -> None:
        """Keep a caller; in a full room others go, or the newcomer where all others have calls under way."""
        excess = len(self._guests) + 1 - self._most_guests
        if excess > 0:
            gone = self._waiting(self._guests)[: excess + int(self._most_guests * _SLACK)]
            if len(gone) < excess:
                gone.append(newcomer)
            for guest in gone:
                self.leave(guest)
                self._sent_away += 1
                guest.turn_out()
            if newcomer in gone:
                return
        self._guests.add(newcomer)

    def leave(self, guest: Guest) -> None:
        """Forget a caller that has gone."""
        self._guests.discard(guest)
        self.release(guest)

    def hold(self, guest: Guest, size: int) -> bool:
        """Keep so many bytes more of a caller; return whether there is room for them, as there always is for a few."""
        guest.held += size
        self._held += size
        if self._held <= self._most_bytes or guest.held <= _FEW_BYTES:
            return True
        enough, late = self._most_bytes * (1 - _SLACK), self._clock() - _PATIENCE_SECONDS
        for other in self._waiting(other for other in self._guests if other.held and other is not guest):
            if self._held <= enough or other.waiting_since > late:
                break
            self.release(other)
            self._sent_away += 1
            other.lose_patience()
        return self._held <= self._most_bytes

    def release(self, guest: Guest, size: int | None = None) -> None:
        """Forget so many bytes of a caller, or all that is kept."""
        gone = guest.held if size is None else min(size, guest.held)
        self._held -= gone
        guest.held -= gone

    def measured(self) -> list[Family]:
        """Return how full it is, and how many were turned out."""
        return [
            metrics.CONNECTIONS.now(len(self._guests)),
            metrics.CONNECTIONS_LIMIT.now(self._most_guests),
            metrics.HELD.now(self._held),
            metrics.HELD_LIMIT.now(self._most_bytes),
            metrics.SENT_AWAY.now(self._sent_away),
        ]

    def tell(self) -> None:
        """Log how many were turned out; a crowd is told in few lines."""
        if self._sent_away > 2 * self._told:
            self._told = self._sent_away
            _LOG.warning("for want of room %d callers that kept this edge waiting were sent away so far", self._told)

    @staticmethod
    def _waiting(guests: Iterable[Guest]) -> list[Guest]:
        """Return those that keep the edge waiting, the longest first."""
        return sorted((guest for guest in guests if guest.waiting_since), key=lambda guest: guest.waiting_since)
