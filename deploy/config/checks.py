"""Checks of settings: each returns the value to keep, or raises ValueError with what is allowed."""

import csv
import ipaddress
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from backend.common.deployment_terms import HTTP_ADDRESS
from backend.common.log_events import CALL, RUN, STEP
from backend.common.secrets import NAME as SECRET_NAME
from backend.settings import ModelPrice, ModelProvider
from contract.addresses import client_address_header
from telemetry.log_events import PROCESS
from telemetry.logs import LogLevels, parse_levels
from telemetry.requests import CONSOLE_REQUEST, REQUEST

_LOGGERS: Final = [each.logger for each in (REQUEST, CONSOLE_REQUEST, CALL, RUN, STEP, PROCESS)]

_HIGHEST_PRICE: Final = 1_000_000


def client_address(value: str) -> str:
    """Reads the method by which the caller's address is determined (contract 8.9)."""
    client_address_header(value)
    return value


def host_name(value: str) -> str:
    """Reads the host name of a certificate."""
    if not re.fullmatch(r"[A-Za-z0-9.-]{1,253}", value):
        raise ValueError("must be a host's name, such as backend.plant-7.internal")
    return value


def host_names(value: str) -> tuple[str, ...]:
    """Reads comma-separated host names or addresses by which browsers reach a server."""
    names = tuple(name.strip().lower() for name in value.split(","))
    if not all(re.fullmatch(r"[a-z0-9.-]{1,253}|[0-9a-f:.]{2,45}", name) for name in names):
        raise ValueError("must be hosts without ports, such as console.example.org, with commas between them")
    return names


def deployment_id(value: str) -> str:
    """Reads the id of a deployment."""
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,128}", value):
        raise ValueError("must be 1 to 128 of A-Z a-z 0-9 . _ -")
    return value


def log_levels(value: str) -> str:
    """Checks levels of log lines, for all and for parts."""
    parse_log_levels(value)
    return value


def parse_log_levels(value: str) -> LogLevels:
    """Reads levels of log lines; raises ValueError with what is allowed."""
    return parse_levels(value, _LOGGERS)


def absolute_path(value: Path) -> Path:
    """Reads an absolute path, which does not depend on the working directory."""
    if not value.is_absolute():
        raise ValueError("must be an absolute path")
    return value


def bucket_name(value: str) -> str:
    """Reads the name of a bucket."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", value):
        raise ValueError("must be 3 to 63 of a-z 0-9 . -, with a letter or digit at both ends")
    return value


def key_prefix(value: str) -> str:
    """Reads the common prefix of keys in a bucket."""
    if not re.fullmatch(r"(?:[A-Za-z0-9!_.*'()-]+/)+", value) or len(value) > 512:
        raise ValueError("must be a path that ends with a slash, such as workflows/plant-7/")
    return value


def http_url(value: str) -> str:
    """Reads the URL of a service."""
    if not re.fullmatch(r"https?://[A-Za-z0-9.:\[\]_-]+/?", value):
        raise ValueError("must be an http or https address, such as https://minio.example.org:9000")
    return value


def issuer(value: str) -> str:
    """Reads the issuer of an identity provider, which is compared literally."""
    if re.fullmatch(r"http://(?:localhost|127\.0\.0\.1|\[::1\])(?::[0-9]{1,5})?(?:/[!-~]*)?", value):
        return value
    if not re.fullmatch(r"https://[A-Za-z0-9.-]+(?::[0-9]{1,5})?(?:/[A-Za-z0-9._~/%+-]*)?", value):
        raise ValueError("must be an https address, such as https://login.example.org, or http on this machine")
    return value


def role_mapping(value: str) -> dict[str, str]:
    """Reads comma-separated `value=role`; `contradictions` checks the roles.

    As in CSV, a value with commas, such as a distinguished name of a directory, stands in quotes.
    """
    try:
        (entries,) = csv.reader([value], skipinitialspace=True)
    except (csv.Error, ValueError):
        entries = []
    pairs = [entry.rpartition("=") for entry in entries]
    mapping = {given.strip(): role.strip() for given, _, role in pairs}
    complete = mapping and all(given and role for given, role in mapping.items()) and len(mapping) == len(pairs)
    if not complete or value.count('"') % 2:
        raise ValueError(
            "must be value=role with commas between them, each value once: platform-team=administrator; "
            'a value with commas stands in quotes: "CN=platform,OU=teams"=administrator'
        )
    return mapping


def email_domains(value: str) -> tuple[str, ...]:
    """Reads comma-separated domains of e-mail."""
    domains = tuple(domain.strip().lower() for domain in value.split(","))
    if not all(re.fullmatch(r"(?:[a-z0-9-]+\.)+[a-z0-9-]{2,}", domain) for domain in domains):
        raise ValueError("must be domains, such as example.org, with commas between them")
    return domains


def scopes(value: str) -> str:
    """Reads the scopes to ask for."""
    names = value.split()
    if "openid" not in names or not all(re.fullmatch(r"[!#-\[\]-~]{1,100}", name) for name in names):
        raise ValueError("must be names with blanks between them, openid among them")
    return " ".join(names)


def text(most: int) -> Callable[[str], str]:
    """Returns a check that accepts a line of text up to a length."""

    def check(value: str) -> str:
        if not value.isprintable() or not value.strip() or len(value) > most:
            raise ValueError(f"must be one line of 1 to {most} characters")
        return value

    return check


def networks(value: str) -> tuple[str, ...]:
    """Reads comma-separated CIDR ranges."""
    ranges = tuple(each.strip() for each in value.split(","))
    try:
        return tuple(str(ipaddress.ip_network(each)) for each in ranges)
    except ValueError:
        raise ValueError("must be CIDR ranges, such as 10.2.0.0/16,fd00:2::/64, with commas between them") from None


def one_of(*allowed: str) -> Callable[[str], str]:
    """Returns a check that accepts the given words only."""

    def check(value: str) -> str:
        if value not in allowed:
            raise ValueError(f"must be {' or '.join(allowed)}")
        return value

    return check


def between(least: float, most: float) -> Callable[[float], float]:
    """Returns a check that accepts numbers within bounds."""

    def check(value: float) -> float:
        if not least <= value <= most:
            raise ValueError(f"must be from {least} to {most}")
        return value

    return check


def one_edge(number: int) -> int:
    """Accepts only 1, because a command runs one edge; a machine runs several edges by several commands."""
    if number not in {0, 1}:
        raise ValueError(
            "must be 0 or 1, or left out: several edges of one machine are several `workflow-api edge` behind a load "
            "balancer, with edge.redis_url (docs/several-machines.md#several-edges-of-one-machine)"
        )
    return number


def model_provider(name: str, value: object) -> ModelProvider:
    """Reads the defaults of one model provider, for agents that do not set their own."""
    if not re.fullmatch(r"[a-z0-9-]{1,64}", name):
        raise ValueError("must be named as models name their provider: openai for openai:gpt-5")
    given: dict[str, Any] = dict(value) if isinstance(value, Mapping) else {"": value}
    checks = {
        "api_key": (SECRET_NAME, "the name of a secret"),
        "base_url": (HTTP_ADDRESS, "an http or https address"),
    }
    for field_name, content in given.items():
        if field_name not in checks:
            raise ValueError("must be a table of api_key and base_url")
        pattern, meaning = checks[field_name]
        if not isinstance(content, str) or not pattern.fullmatch(content):
            raise ValueError(f"must have as {field_name} {meaning}")
    return ModelProvider(**given)


def model_price(name: str, value: object) -> ModelPrice:
    """Reads the price of one model, in US dollars per million tokens."""
    if not re.fullmatch(r"[a-z0-9-]{1,64}:[!-~]{1,200}", name):
        raise ValueError('must be named as agents name the model, in quotes: "openai:gpt-5"')
    given: dict[str, Any] = dict(value) if isinstance(value, Mapping) else {}
    if not given.keys() <= {"input", "output", "cached"} or not {"input", "output"} <= given.keys():
        raise ValueError("must be a table of input and output, and cached if that has a price of its own")
    for field_name, price in given.items():
        # A flag is a number to Python, and not-a-number is in no range.
        if isinstance(price, bool) or not isinstance(price, int | float) or not 0 <= price <= _HIGHEST_PRICE:
            raise ValueError(f"must have as {field_name} a number from 0 to {_HIGHEST_PRICE:,}, not {price!r}")
    return ModelPrice(**{field_name: Decimal(str(price)) for field_name, price in given.items()})


def identity(name: str, value: object) -> tuple[str, ...]:
    """Reads the grants of callers with a certificate of that name; the backend checks the names of the grants."""
    if not re.fullmatch(r"dns:[a-z0-9._*-]{1,253}|uri:[!-~]{1,2048}", name):
        raise ValueError("must be named dns:<name in lower case> or uri:<URI>, as the certificate's alternative name")
    if not isinstance(value, list) or not all(isinstance(given, str) for given in value):
        raise ValueError('must be a list of what it may call, such as ["edge"]')
    return tuple(value)
