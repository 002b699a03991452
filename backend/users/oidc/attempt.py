"""One sign-in at the provider: a secret of the browser, and what the provider hears of it, derived from that alone.

Nothing is stored while a person is away: who comes back without the secret cannot show what the answer is bound to.
"""

import hashlib
import hmac
import re
import secrets
from base64 import urlsafe_b64encode
from typing import Final, NamedTuple

LASTS_MS: Final = 10 * 60_000

_SECRET: Final = re.compile(r"([0-9]{1,15})\.[A-Za-z0-9_-]{43}")


class Attempt(NamedTuple):
    """What is derived from the secret of one sign-in; each is of 256 bits, in 43 characters."""

    state: str
    nonce: str
    verifier: str

    @property
    def challenge(self) -> str:
        """The PKCE challenge of the verifier, by S256."""
        return _base64url(hashlib.sha256(self.verifier.encode()).digest())


def new_secret(now: int) -> str:
    """Returns the secret of a sign-in that begins now."""
    return f"{now}.{secrets.token_urlsafe(32)}"


def attempt_of(secret: str, now: int) -> Attempt | None:
    """Returns what a secret stands for; None where it is none, or too old."""
    found = _SECRET.fullmatch(secret)
    if found is None or not 0 <= now - int(found[1]) < LASTS_MS:
        return None
    return Attempt(*(_derived(secret, use) for use in Attempt._fields))


def _derived(secret: str, use: str) -> str:
    return _base64url(hmac.digest(secret.encode(), f"workflow-api oidc {use}".encode(), "sha256"))


def _base64url(content: bytes) -> str:
    return urlsafe_b64encode(content).decode().rstrip("=")
