"""The address of Redis: a URL, or a reference to a URL with a password."""

import re
from typing import Final

from backend.secrets import ENVIRONMENT, FILE, SecretError, Secrets
from deploy.config.secret_references import reference, resolve_reference

_SECRET: Final = re.compile(r"secret:([A-Za-z0-9_-]{1,64})")
_WORD: Final = r"[^\s:@/?#]*"
_URL: Final = re.compile(
    rf"rediss?://({_WORD}(?P<password>:{_WORD})?@)?([A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{{1,5}})?(/[0-9]{{0,4}})?"
)


def redis_url(value: str) -> str:
    """Reads `edge.redis_url`; the ValueError does not quote the value, which may hold a password."""
    if value.startswith((ENVIRONMENT, FILE)):
        return reference(value)
    url = _URL.fullmatch(value)
    if (url is None or url["password"]) and not _SECRET.fullmatch(value):
        raise ValueError(
            "must be redis://HOST:PORT, or rediss://HOST:PORT for TLS, without a password, "
            "or secret:NAME, env:VARIABLE or file:/path that holds it all"
        )
    return value


def secret_name(setting: str) -> str | None:
    """Returns the name of the secret that a setting refers to, None where it refers to none."""
    named = _SECRET.fullmatch(setting)
    return named[1] if named else None


def redis_address(setting: str, secrets: Secrets) -> str:
    """Returns the current URL.

    Raises:
        SecretError: it cannot be read, or is no Redis URL.
    """
    name = secret_name(setting)
    if name is not None:
        url = secrets.get(name)
    elif setting.startswith((ENVIRONMENT, FILE)):
        name, url = "edge.redis_url", resolve_reference("edge.redis_url", setting, secrets.environment)
    else:
        return setting
    if not _URL.fullmatch(url):
        raise SecretError(f"the secret '{name}' is no redis:// or rediss:// address")
    return url
