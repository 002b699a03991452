"""What failed sign-ins are counted by: a name from an address, an address, and a name for the audit trail."""

import hashlib
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final

NOBODY: Final = ""
"""In place of a digest: all names that nobody bears, counted together for the audit trail."""

_NETWORK_BITS: Final = 64


def name_and_address(name: str, address: str) -> str:
    """Digest of a name tried from an address."""
    return _digest("name and address", _network(address), name)


def address_alone(address: str) -> str:
    """Digest of an address, whatever the names tried from it."""
    return _digest("address", _network(address))


def name_alone(name: str) -> str:
    """Digest of a name, wherever it was tried from."""
    return _digest("name", name)


def _digest(*parts: str) -> str:
    # What was typed for a name may be a password, so only digests are stored.
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _network(address: str) -> str:
    """The address, of IPv6 its /64: one subscriber has all the addresses of that."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return address
    return str(ip_network((int(parsed), _NETWORK_BITS), strict=False))
