"""Generation of credentials; only their SHA-256 is stored (contract 8.2, 8.7)."""

import hashlib
import secrets


def new_key_id() -> str:
    """Returns a key id: `ak_` and 12 hexadecimal characters."""
    return f"ak_{secrets.token_hex(6)}"


def new_secret() -> str:
    """Returns a secret of 43 characters from `A-Z a-z 0-9 _ -`, 256 random bits."""
    return secrets.token_urlsafe(32)


def new_external_id() -> str:
    """Returns an external id: `ake_` and 32 hexadecimal characters."""
    return f"ake_{secrets.token_hex(16)}"


def sha256_hex(value: str) -> str:
    """Returns the digest of a credential, which is what is stored."""
    return hashlib.sha256(value.encode()).hexdigest()
