"""Where Redis is: a URL that may hold a password, so it is shown nowhere, or the secret that holds one."""

import re
from typing import Final

from backend.secrets import SecretError, Secrets

_REFERENCE: Final = re.compile(r"secret:([A-Za-z0-9_-]{1,64})")
_WORD: Final = r"[^\s:@/?#]*"
_URL: Final = re.compile(
    rf"rediss?://({_WORD}(:{_WORD})?@)?([A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{{1,5}})?(/[0-9]{{0,4}})?"
)


def redis_url(value: str) -> str:
    """Read the setting; raises ValueError with what is allowed, and never with what was given."""
    if not _URL.fullmatch(value) and not _REFERENCE.fullmatch(value):
        raise ValueError("must be redis://HOST:PORT, rediss://HOST:PORT for TLS, or secret:NAME")
    return value


def secret_of(setting: str) -> str | None:
    """Return the name of the secret that the setting refers to; None for a URL."""
    reference = _REFERENCE.fullmatch(setting)
    return reference[1] if reference else None


def redis_address(setting: str, secrets: Secrets) -> str:
    """Return the URL as it is now.

    Raises:
        SecretError: the secret cannot be had, or holds no such URL.
    """
    name = secret_of(setting)
    if name is None:
        return setting
    url = secrets.get(name)
    if not _URL.fullmatch(url):
        raise SecretError(f"the secret '{name}' is no redis:// or rediss:// address")
    return url
