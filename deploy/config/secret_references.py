"""References to secrets in settings: environment variables and files, in the database's URL and in Redis's address."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl

from backend.common.secrets import ENVIRONMENT, FILE, NAME, SecretError, Secrets

_HOST: Final = r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.%-]+)?(?::[0-9]+)?"
# Strict: libpq quotes parts of a URL that it cannot parse, and a password may be among them.
_DATABASE: Final = re.compile(
    r"postgres(?:ql)?://(?:[^@/?#:]+(?P<password>:[^@/?#:]*)?@)?"
    rf"{_HOST}(?:,{_HOST})*/[^@?#/]+(?:\?(?P<query>[^@#]*))?"
)
_BROKEN_ESCAPE: Final = re.compile(r"%(?:00|(?![0-9A-Fa-f]{2}))")
_INDEX: Final = re.compile(r"https?://[A-Za-z0-9.\[\]:_-]+(?:/[^@\s?#]*)?")
NO_INDEX: Final = "none"
_SECRET_PARAMETERS: Final = frozenset({"password", "sslpassword"})

_SECRET: Final = re.compile(r"secret:([A-Za-z0-9_-]{1,64})")
_WORD: Final = r"[^\s:@/?#]*"
_URL: Final = re.compile(
    rf"rediss?://({_WORD}(?P<password>:{_WORD})?@)?([A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{{1,5}})?(/[0-9]{{0,4}})?"
)


def reference(value: object) -> str:
    """Reads a reference to a sensitive value: `env:VARIABLE` or `file:/path`."""
    if isinstance(value, str):
        if value.startswith(ENVIRONMENT) and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value.removeprefix(ENVIRONMENT)):
            return value
        if value.startswith(FILE) and Path(value.removeprefix(FILE)).is_absolute() and "\0" not in value:
            return value
    raise ValueError("must be env:VARIABLE or file:/path")


def secret_source(name: str, value: object) -> str:
    """Reads an entry of `[secrets]`: a name and the reference to its value."""
    if not NAME.fullmatch(name):
        raise ValueError("must have a name of 1 to 64 of A-Z a-z 0-9 _ -")
    return reference(value)


def secret_name(value: str) -> str:
    """Reads the name of a secret."""
    if not NAME.fullmatch(value):
        # The value is not quoted: it may be the secret itself.
        raise ValueError("must be the name of a secret that [secrets] holds: 1 to 64 of A-Z a-z 0-9 _ -")
    return value


def database_url(value: str) -> str:
    """Reads the address of a PostgreSQL database without a password, or a reference to an address."""
    if value.startswith((ENVIRONMENT, FILE)):
        return reference(value)
    if _holds_password(value) is not False:
        raise ValueError(
            "must be postgresql://user@host/name without a password, or env:VARIABLE or file:/path that holds it all"
        )
    return value


def resolve_database_url(where: str | None, environment: Mapping[str, str]) -> str | None:
    """Returns the address of the database, resolving a reference.

    Raises:
        SecretError: it cannot be read, or is no address; the text quotes nothing of it.
    """
    if where is None or not where.startswith((ENVIRONMENT, FILE)):
        return where
    url = resolve_reference("backend.database", where, environment)
    if _holds_password(url) is None:
        raise SecretError(
            "what backend.database refers to must be an address such as postgresql://user:password@host/name, with the "
            "special characters of the password as %XX"
        )
    return url


def index_url(value: str) -> str | None:
    """Reads the address of a package index without a password, a reference to an address, or `none`."""
    if value == NO_INDEX:
        return None
    if value.startswith((ENVIRONMENT, FILE)):
        return reference(value)
    if not _INDEX.fullmatch(value):
        raise ValueError(
            "must be none, an http or https address without a user and password such as https://pypi.org/simple, or "
            "env:VARIABLE or file:/path that holds it all"
        )
    return value


def resolve_index_url(setting: str, where: str | None, environment: Mapping[str, str]) -> str | None:
    """Returns the address of a package index, resolving a reference.

    Raises:
        SecretError: it cannot be read, or is no address; the text quotes nothing of it.
    """
    if where is None or not where.startswith((ENVIRONMENT, FILE)):
        return where
    url = resolve_reference(setting, where, environment)
    if not re.fullmatch(r"https?://[!-~]+", url):
        raise SecretError(f"what {setting} refers to must be an address such as https://user:password@host/simple")
    return url


def resolve_reference(setting: str, where: str, environment: Mapping[str, str]) -> str:
    """Returns the value that a setting refers to.

    Raises:
        SecretError: it cannot be read.
    """
    return Secrets({setting: where}, environment).get(setting)


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


def redis_secret_name(setting: str) -> str | None:
    """Returns the name of the secret that a setting refers to, else None."""
    named = _SECRET.fullmatch(setting)
    return named[1] if named else None


def redis_address(setting: str, secrets: Secrets) -> str:
    """Returns the current URL.

    Raises:
        SecretError: it cannot be read, or is no Redis URL.
    """
    name = redis_secret_name(setting)
    if name is not None:
        url = secrets.get(name)
    elif setting.startswith((ENVIRONMENT, FILE)):
        name, url = "edge.redis_url", resolve_reference("edge.redis_url", setting, secrets.environment)
    else:
        return setting
    if not _URL.fullmatch(url):
        raise SecretError(f"the secret '{name}' is no redis:// or rediss:// address")
    return url


def _holds_password(url: str) -> bool | None:
    """Returns whether a database address holds a password; None if it is no such address."""
    readable = re.fullmatch(r"[!-~]+", url) and not _BROKEN_ESCAPE.search(url)
    found = _DATABASE.fullmatch(url) if readable else None
    if found is None:
        return None
    parameters = {name for name, _ in parse_qsl(found["query"] or "", keep_blank_values=True)}
    return bool(found["password"] or parameters & _SECRET_PARAMETERS)
