"""Where Redis is: a URL, or what refers to one that holds a password."""

import re
from typing import Final

from backend.secrets import ENVIRONMENT, FILE, SecretError, Secrets
from deploy.config.secret_references import reference, revealed

_SECRET: Final = re.compile(r"secret:([A-Za-z0-9_-]{1,64})")
_WORD: Final = r"[^\s:@/?#]*"
_URL: Final = re.compile(
    rf"rediss?://({_WORD}(?P<password>:{_WORD})?@)?([A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{{1,5}})?(/[0-9]{{0,4}})?"
)


def redis_url(value: str) -> str:
    """Read the setting; raises ValueError with what is allowed, and never with what was given."""
    if value.startswith((ENVIRONMENT, FILE)):
        return reference(value)
    url = _URL.fullmatch(value)
    if (url is None or url["password"]) and not _SECRET.fullmatch(value):
        raise ValueError(
            "must be redis://HOST:PORT, or rediss://HOST:PORT for TLS, without a password, "
            "or secret:NAME, env:VARIABLE or file:/path that holds it all"
        )
    return value


def secret_of(setting: str) -> str | None:
    """Return the name of the secret that the setting refers to; None for anything else."""
    named = _SECRET.fullmatch(setting)
    return named[1] if named else None


def redis_address(setting: str, secrets: Secrets) -> str:
    """Return the URL as it is now.

    Raises:
        SecretError: it cannot be had, or is no such URL.
    """
    name = secret_of(setting)
    if name is not None:
        url = secrets.get(name)
    elif setting.startswith((ENVIRONMENT, FILE)):
        name, url = "edge.redis_url", revealed("edge.redis_url", setting, secrets.environment)
    else:
        return setting
    if not _URL.fullmatch(url):
        raise SecretError(f"the secret '{name}' is no redis:// or rediss:// address")
    return url
