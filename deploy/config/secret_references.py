"""References to sensitive values: a setting says where a value is kept, and the value is read when it is needed."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl

from backend.secrets import ENVIRONMENT, FILE, NAME, SecretError, Secrets

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


def _holds_password(url: str) -> bool | None:
    """Returns whether a database address holds a password; None where it is no such address."""
    readable = re.fullmatch(r"[!-~]+", url) and not _BROKEN_ESCAPE.search(url)
    found = _DATABASE.fullmatch(url) if readable else None
    if found is None:
        return None
    parameters = {name for name, _ in parse_qsl(found["query"] or "", keep_blank_values=True)}
    return bool(found["password"] or parameters & _SECRET_PARAMETERS)
