"""Makes credentials; only their SHA-256 is ever kept (SPEC.md, Credentials)."""

import hashlib
import secrets


def new_key_id() -> str:
    """A key id: `ak_` and 12 hexadecimal characters."""
    return f"ak_{secrets.token_hex(6)}"


def new_secret() -> str:
    """A secret of 43 characters from `A-Z a-z 0-9 _ -`, 256 bits of chance."""
    return secrets.token_urlsafe(32)


def new_external_id() -> str:
    """An external id: `ake_` and 32 hexadecimal characters."""
    return f"ake_{secrets.token_hex(16)}"


def sha256_hex(value: str) -> str:
    """What is kept of a credential."""
    return hashlib.sha256(value.encode()).hexdigest()
