"""Source addresses of calls, and the address ranges that a key allows (contract 8.9)."""

import logging
from collections.abc import Callable, Iterable, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Final

from contract.addresses import parse_address, viewer_header
from edge.http.request import HttpRequest

AddressReader = Callable[[HttpRequest], str]

_MAPPED: Final = IPv6Network("::ffff:0:0/96")

_LOG = logging.getLogger(__name__)


def address_reader(setting: str) -> AddressReader:
    """Returns the function that reads the source address of a request, as text; empty when it is unknown.

    Raises:
        ValueError: the setting is none of `peer`, `load_balancer` and `header:<Name>`.
    """
    name = viewer_header(setting)
    if name is not None:
        return lambda request: _only(request.header_values(name))
    return _peer if setting == "peer" else _load_balancer


def _peer(request: HttpRequest) -> str:
    peer = request.connection.peername
    return peer[0] if isinstance(peer, tuple) else ""


def _load_balancer(request: HttpRequest) -> str:
    # The load balancer appends the address it saw; the caller may have sent all others.
    forwarded = request.header_values("X-Forwarded-For")
    return forwarded[-1].rpartition(",")[2].strip() if forwarded else ""


def _only(values: Sequence[str]) -> str:
    return values[0].strip() if len(values) == 1 else ""


class AddressRanges:
    """An allow-list as integer ranges."""

    __slots__ = ("_ranges",)

    def __init__(self, cidrs: Iterable[str]) -> None:
        """Takes CIDR ranges; an invalid one allows nobody and is logged."""
        self._ranges = [read for cidr in cidrs if (read := _range(cidr)) is not None]

    def allow(self, text: str) -> bool:
        """Returns whether an address is inside; an invalid one never is."""
        address = parse_address(text)
        if address is None:
            return False
        version, number = address.version, int(address)
        return any(of == version and first <= number <= last for of, first, last in self._ranges)


def _range(cidr: str) -> tuple[int, int, int] | None:
    try:
        network: IPv4Network | IPv6Network = ip_network(cidr, strict=False)
    except ValueError:
        _LOG.error("An allow-list holds %r, which is not a CIDR range and matches no address", cidr)
        return None
    first, last = int(network.network_address), int(network.broadcast_address)
    if isinstance(network, IPv6Network) and network.subnet_of(_MAPPED):
        return 4, first & 0xFFFF_FFFF, last & 0xFFFF_FFFF
    return network.version, first, last
