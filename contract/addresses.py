"""Parses source addresses of calls, and groups them into the networks by which limits count."""

import re
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final

_WITH_PORT: Final = re.compile(r"\[([^][]*)\](?::([0-9]{1,5}))?|([^][]*):([0-9]{1,5})")
_LARGEST_PORT: Final = 65_535
_HEADER: Final = re.compile(r"header:([A-Za-z0-9-]+)")


@lru_cache(maxsize=4096)
def parse_address(text: str) -> IPv4Address | IPv6Address | None:
    """Returns the address in `ip` or `ip:port`, IPv4-mapped IPv6 as IPv4; None when it is not an address.

    A port is 0 to 65535.
    """
    address = _parse(text)
    if address is None and (with_port := _WITH_PORT.fullmatch(text)):
        bracketed, its_port, bare, bare_port = with_port.groups(default="")
        address = _parse(bracketed or bare) if int(its_port or bare_port or 0) <= _LARGEST_PORT else None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


@lru_cache(maxsize=4096)
def plain_address(text: str) -> str:
    """Returns the address without a port and in its usual form; empty when it is not an address."""
    address = parse_address(text)
    return str(address) if address else ""


def network_of(text: str) -> str:
    """Returns the network by which limits count: an IPv4 address, an IPv6 /64, or the text if it is no address."""
    address = parse_address(text)
    if address is None:
        return text
    return str(ip_network((int(address), 64), strict=False)) if isinstance(address, IPv6Address) else str(address)


def client_address_header(client_address: str) -> str | None:
    """Returns the header that the setting `client_address` names; None for `peer` and `load_balancer`.

    Raises:
        ValueError: the setting is neither of these nor `header:<Name>`; the message says what is allowed.
    """
    if client_address in {"peer", "load_balancer"}:
        return None
    named = _HEADER.fullmatch(client_address)
    if named is None:
        raise ValueError("must be peer, load_balancer or header:<Name>")
    return named[1]


def _parse(text: str) -> IPv4Address | IPv6Address | None:
    bare, zone, _ = text.partition("%")
    try:
        # Only IPv6 addresses may have a zone.
        return IPv6Address(bare) if zone else ip_address(bare)
    except ValueError:
        return None
