"""Settings of a client: address of the service, credentials, time bounds and headers."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import urlsplit

from workflow_api_client.failures import ConfigurationError

BASE: Final = "/api/v1"
URL: Final = "WORKFLOW_API_URL"
KEY: Final = "WORKFLOW_API_KEY"
EXTERNAL_ID: Final = "WORKFLOW_API_EXTERNAL_ID"

_CREDENTIAL: Final = re.compile(r"[!-~]{1,1000}")
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_HEADER_VALUE: Final = re.compile(r"[ -~]{0,8000}")
# Headers that the client itself sets.
_OWN_HEADERS: Final = frozenset(
    {
        "accept",
        "accept-encoding",
        "authorization",
        "content-length",
        "content-type",
        "host",
        "idempotency-key",
        "if-none-match",
        "if-range",
        "last-event-id",
        "range",
        "transfer-encoding",
        "x-request-id",
        "x-service-key-external-id",
    }
)


@dataclass(frozen=True)
class Settings:
    """Address, credentials, and bounds of calls.

    `url` ends with `/api/v1`. `timeout` bounds one request and `retry_seconds` the retries of a temporary refusal, in
    seconds. `headers` are sent in addition to the client's own; a User-Agent replaces the client's.
    """

    url: str
    key: str = field(repr=False)
    external_id: str = field(repr=False)
    timeout: float = 30.0
    retry_seconds: float = 90.0
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


def checked(
    url: str,
    key: str,
    external_id: str,
    *,
    timeout: float,
    retry_seconds: float,
    headers: Mapping[str, str] | None = None,
) -> Settings:
    """Checks values; returns them as settings.

    Raises:
        ConfigurationError: a value is not valid; the message does not quote it.
    """
    for name, value in (("key", key), ("external_id", external_id)):
        if not _CREDENTIAL.fullmatch(value):
            raise ConfigurationError(f"`{name}` must be the text that was shown when the key was made.")
    _check_options(timeout, retry_seconds, headers or {})
    return Settings(base_address(url), key, external_id, timeout, retry_seconds, dict(headers or {}))


def changed(
    settings: Settings, timeout: float | None, retry_seconds: float | None, headers: Mapping[str, str] | None
) -> Settings:
    """Returns settings with the options that are given; `headers` are added to the present ones.

    Raises:
        ConfigurationError: a value is not valid.
    """
    # A name replaces a present header however either is spelled.
    names = {name.lower() for name in headers or {}}
    kept = {name: value for name, value in settings.headers.items() if name.lower() not in names}
    timeout = settings.timeout if timeout is None else timeout
    retry_seconds = settings.retry_seconds if retry_seconds is None else retry_seconds
    _check_options(timeout, retry_seconds, headers or {})
    return replace(settings, timeout=timeout, retry_seconds=retry_seconds, headers={**kept, **(headers or {})})


def _check_options(timeout: float, retry_seconds: float, headers: Mapping[str, str]) -> None:
    for name, number in (("timeout", timeout), ("retry_seconds", retry_seconds)):
        if not 0 <= number < float("inf"):
            raise ConfigurationError(f"`{name}` must be a number of seconds.")
    for name, value in headers.items():
        if name.lower() in _OWN_HEADERS or not _HEADER_NAME.fullmatch(name):
            raise ConfigurationError(f"`headers` must not have {name!r}: it is no header, or one that the client sets.")
        if not _HEADER_VALUE.fullmatch(value):
            raise ConfigurationError(f"`headers` must have printable ASCII as the value of {name!r}.")


def from_environment(environment: Mapping[str, str] | None = None) -> tuple[str, str, str]:
    """Returns address, key and external id from the environment.

    Raises:
        ConfigurationError: a variable is missing.
    """
    given = os.environ if environment is None else environment
    missing = [name for name in (URL, KEY, EXTERNAL_ID) if not given.get(name)]
    if missing:
        raise ConfigurationError(f"Set {', '.join(missing)} in the environment.")
    return given[URL], given[KEY], given[EXTERNAL_ID]


def base_address(url: str) -> str:
    """Returns the base address of the API from an address with or without `/api/v1`.

    Raises:
        ConfigurationError: the text is no http or https address.
    """
    try:
        parts = urlsplit(url.strip())
        fits = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        fits = False
    if not fits:
        raise ConfigurationError("The address must be of the form https://host or https://host/api/v1.")
    if parts.username is not None or parts.query or parts.fragment:
        raise ConfigurationError("The address must have no user, no query and no fragment.")
    path = parts.path.rstrip("/").removesuffix(BASE)
    return f"{parts.scheme}://{parts.netloc}{path}{BASE}"
