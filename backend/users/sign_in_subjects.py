"""Keys under which failed sign-ins are counted: a name from an address, an address, and a name for the audit trail."""

import hashlib
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final

UNKNOWN_NAMES: Final = ""
"""Key of all names that no user has, counted together for the audit trail."""

_NETWORK_BITS: Final = 64


def name_and_address(name: str, address: str) -> str:
    """Returns the key of a name tried from an address."""
    return _digest("name and address", _network(address), name)


def address_alone(address: str) -> str:
    """Returns the key of an address, for all names tried from it."""
    return _digest("address", _network(address))


def name_alone(name: str) -> str:
    """Returns the key of a name, for all addresses that it was tried from."""
    return _digest("name", name)


def _digest(*parts: str) -> str:
    # What was typed for a name may be a password, so only digests are stored.
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _network(address: str) -> str:
    """Returns the address, or the /64 of an IPv6 address: one subscriber has all addresses of it."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return address
    return str(ip_network((int(parsed), _NETWORK_BITS), strict=False))
