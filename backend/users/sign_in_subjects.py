"""Keys under which failed sign-ins are counted: a name from an address, an address, and a name for the audit trail."""

import hashlib
from typing import Final

from contract.addresses import network_of

UNKNOWN_NAMES: Final = ""
"""Key of all names that no user has, counted together for the audit trail."""


def name_and_address(name: str, address: str) -> str:
    """Returns the key of a name tried from an address."""
    return _digest("name and address", network_of(address), name)


def address_alone(address: str) -> str:
    """Returns the key of an address, for all names tried from it."""
    return _digest("address", network_of(address))


def name_alone(name: str) -> str:
    """Returns the key of a name, for all addresses that it was tried from."""
    return _digest("name", name)


def _digest(*parts: str) -> str:
    # What was typed for a name may be a password, so only digests are stored.
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
