"""Bounds on a server's connections: their number, the bytes kept for them, and the time that callers take."""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from enum import Enum, auto
from time import monotonic
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

# At a limit somewhat more is freed than necessary, so that connections are not sorted each time.
_SLACK: Final = 0.05
# Bytes that any connection may hold, so that small requests succeed while others hold large ones.
_ALWAYS_ALLOWED_BYTES: Final = 16_384
# Callers that have kept the server waiting for less do not lose their bytes.
_GRACE_SECONDS: Final = 1.0
_PERIOD_SECONDS: Final = 1.0

_LOG = logging.getLogger(__name__)


class WaitKind(Enum):
    """Events for which a connection waits on its caller."""

    NOTHING = auto()
    """A request is being served."""
    REQUEST = auto()
    HEAD = auto()
    """The rest of a request line and headers."""
    BODY = auto()
    READER = auto()
    """The caller reading its response."""


class Timeouts(NamedTuple):
    """Seconds for which a caller may keep a connection waiting; bodies are bounded where they are read."""

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
    """Base of the connections of the API and of the console; records the wait for the caller and its start."""

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
        """Counts the time inside the context as the caller's."""
        self.wait_for(wait_kind)
        try:
            yield
        finally:
            self.end_wait()

    def evict(self) -> None:
        """Ends the connection."""
        raise NotImplementedError

    def evict_if_overdue(self, now: float, timeouts: Timeouts) -> None:
        """Ends the connection if its caller has exceeded the bound on the present kind of wait."""
        if self.waiting_since and now - self.waiting_since > timeouts.seconds(self.wait_kind):
            self.evict()


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
    """Limiter to `limit` connections; a new one replaces those that have kept the server waiting longest.

    A connection whose request is being served is never evicted.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.connections: set[C] = set()
        self.evicted = 0
        """Number of connections that were evicted or refused so far."""

    def admit(self, newcomer: C) -> bool:
        """Admits a connection and evicts others for it; if all others are being served, evicts the newcomer.

        Returns whether the newcomer was admitted.
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


class Holder(Waiting, Protocol):
    """A connection for which bytes are kept."""

    reserved_bytes: int
    """Number of bytes kept."""

    def stop_waiting(self) -> None:
        """Ends the wait for the caller; a request under way may still be answered."""
        ...


H = TypeVar("H", bound=Holder)


class BufferLimiter(Generic[H]):
    """Limiter to `limit` bytes; at the limit the connections that kept the server waiting longest lose theirs."""

    def __init__(self, limit: int, connections: Collection[H], clock: Callable[[], float]) -> None:
        """Takes the limit, a live view of the connections, and the loop's clock."""
        self.limit = limit
        self.reserved_bytes = 0
        self.evicted = 0
        """Number of connections that lost their bytes so far."""
        self._connections = connections
        self.clock = clock

    def reserve(self, connection: H, size: int) -> bool:
        """Counts bytes for a connection; returns whether they may be kept."""
        connection.reserved_bytes += size
        self.reserved_bytes += size
        if self.reserved_bytes <= self.limit or connection.reserved_bytes <= _ALWAYS_ALLOWED_BYTES:
            return True
        enough, late = self.limit * (1 - _SLACK), self.clock() - _GRACE_SECONDS
        for other in longest_waiting(
            other for other in self._connections if other.reserved_bytes and other is not connection
        ):
            if self.reserved_bytes <= enough or other.waiting_since > late:
                break
            self.release(other)
            self.evicted += 1
            other.stop_waiting()
        return self.reserved_bytes <= self.limit

    def release(self, connection: H, size: int | None = None) -> None:
        """Stops counting bytes of a connection, all of them by default."""
        freed = connection.reserved_bytes if size is None else min(size, connection.reserved_bytes)
        self.reserved_bytes -= freed
        connection.reserved_bytes -= freed


async def watch_connections(
    connections: Callable[[], Iterable[BoundedConnection]], timeouts: Timeouts, evicted: Callable[[], int]
) -> None:
    """Evicts overdue connections and logs how many were evicted, until cancelled.

    `evicted` returns the number of connections evicted at limits so far; a line is logged when the number has doubled.
    """
    logged = 0
    while True:
        await asyncio.sleep(_PERIOD_SECONDS)
        try:
            now = monotonic()
            for connection in tuple(connections()):
                connection.evict_if_overdue(now, timeouts)
        except Exception:  # noqa: BLE001 - one failure does not end the watch
            _LOG.exception("Connections could not be checked for timeouts")
        if evicted() > 2 * logged:
            logged = evicted()
            _LOG.warning("%d connections that kept the server waiting were evicted so far", logged)
