"""What failed sign-ins are counted by: a name from an address, an address, and a name for the audit trail."""

import hashlib
from typing import Final

from contract.addresses import network_of

NOBODY: Final = ""
"""In place of a digest: all names that nobody bears, counted together for the audit trail."""


def name_and_address(name: str, address: str) -> str:
    """Digest of a name tried from an address."""
    return _digest("name and address", network_of(address), name)


def address_alone(address: str) -> str:
    """Digest of an address, whatever the names tried from it."""
    return _digest("address", network_of(address))


def name_alone(name: str) -> str:
    """Digest of a name, wherever it was tried from."""
    return _digest("name", name)


def _digest(*parts: str) -> str:
    # What was typed for a name may be a password, so only digests are stored.
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
