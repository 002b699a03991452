"""Source addresses of calls, and the address ranges that a key allows. (DECISIONS.md, Source address)."""

import logging
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from edge.http.request import HttpRequest
from edge.settings import viewer_header

AddressReader = Callable[[HttpRequest], str]

_WITH_PORT: Final = re.compile(r"\[([^][]*)\](?::[0-9]{1,5})?|([^][]*):[0-9]{1,5}")
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


@lru_cache(maxsize=4096)
def parse_address(text: str) -> IPv4Address | IPv6Address | None:
    """Returns the address in `ip` or `ip:port`, IPv4-mapped IPv6 as IPv4; None when it is not an address."""
    address = _parse(text)
    if address is None:
        with_port = _WITH_PORT.fullmatch(text)
        address = _parse(with_port[with_port.lastindex or 0]) if with_port else None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


@lru_cache(maxsize=4096)
def plain_address(text: str) -> str:
    """Returns the address without a port and in its canonical form; empty when it is not an address."""
    address = parse_address(text)
    return str(address) if address else ""


def network_of(text: str) -> str:
    """Returns the network that limits are counted by: the address, of IPv6 its /64 (one subscriber); else the text."""
    address = parse_address(text)
    if address is None:
        return text
    return str(ip_network((int(address), 64), strict=False)) if isinstance(address, IPv6Address) else str(address)


def _parse(text: str) -> IPv4Address | IPv6Address | None:
    bare, zone, _ = text.partition("%")
    try:
        # Only an address of IPv6 may have a zone.
        return IPv6Address(bare) if zone else ip_address(bare)
    except ValueError:
        return None


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
        _LOG.error("an allow-list holds %r, which is not a CIDR range and allows nobody", cidr)
        return None
    first, last = int(network.network_address), int(network.broadcast_address)
    if isinstance(network, IPv6Network) and network.subnet_of(_MAPPED):
        return 4, first & 0xFFFF_FFFF, last & 0xFFFF_FFFF
    return network.version, first, last
