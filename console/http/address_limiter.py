"""Bounds the number of connections in total and by address, so that one address cannot exclude others."""

from typing import Generic, TypeVar

from contract.addresses import network_of
from contract.connections.connection_limiter import ConnectionLimiter, Evictable

C = TypeVar("C", bound=Evictable)


class AddressLimiter(Generic[C]):
    """At most `limit` connections in total, and `per_address` from one address, of IPv6 from one /64."""

    def __init__(self, limit: int, per_address: int) -> None:
        self._all = ConnectionLimiter[C](limit)
        self._per_address = per_address
        self._of_network: dict[str, ConnectionLimiter[C]] = {}
        self._networks: dict[C, str] = {}
        self._evicted_by_address = 0

    @property
    def evicted(self) -> int:
        """How many were evicted or refused so far."""
        return self._all.evicted + self._evicted_by_address

    def admit(self, newcomer: C, address: str) -> None:
        """Admits a connection, or evicts; an address that is at its own limit never evicts another's."""
        network = network_of(address)
        limiter = self._of_network.setdefault(network, ConnectionLimiter[C](self._per_address))
        before = limiter.evicted
        self._networks[newcomer] = network
        admitted = limiter.admit(newcomer)
        self._evicted_by_address += limiter.evicted - before
        if not (admitted and self._all.admit(newcomer)):
            self.leave(newcomer)

    def leave(self, connection: C) -> None:
        """Forgets a connection that has ended."""
        self._all.leave(connection)
        network = self._networks.pop(connection, None)
        limiter = self._of_network.get(network or "")
        if limiter is not None:
            limiter.leave(connection)
            if not limiter.connections:
                del self._of_network[network or ""]
