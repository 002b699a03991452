"""Validates the parameters of a start by the declarations of a workflow version (contract 11.13, 12.23).

A declaration is an entry of the definition's `parameters`: name, type, description, required, default, and if set enum,
minimum, maximum, min_length, max_length, pattern; for `s3_prefix` connector, max_objects, max_bytes.
"""

import datetime as dt
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

import re2  # type: ignore[import-untyped]  # ships no types

from backend.common.errors import ApiError
from backend.common.json_text import JsonMapping, JsonObject
from workflow_api.v1 import errors_pb2

LONGEST_PATTERN: Final = 1_000

# Largest compiled pattern that matches 2 KB of any text in well under a millisecond.
_QUICK_PROGRAM: Final = 400

# Patterns of JSON Schema write a character as `\u00e9`, those of RE2 as `\x{00e9}`.
_UNICODE_ESCAPE: Final = re.compile(r"(?<!\\)((?:\\\\)*)\\u([0-9A-Fa-f]{4})")


def check_pattern(pattern: str) -> str:
    """Returns the pattern if it is valid.

    Raises:
        ValueError: the pattern is too long or no valid RE2 expression; the text is for a person.
    """
    if len(pattern) > LONGEST_PATTERN:
        raise ValueError(f"must have at most {LONGEST_PATTERN:,} characters")
    try:
        _compiled(pattern)
    except re2.error as error:
        cause = error.args[0].decode(errors="replace") if error.args else "not readable"
        raise ValueError(f"must be a regular expression without look-around or back-references: {cause}") from None
    return pattern


def matches(pattern: str, value: str) -> bool:
    """Returns whether the whole value matches a pattern that `check_pattern` accepted."""
    return _compiled(pattern).fullmatch(value) is not None


def is_quick(pattern: str) -> bool:
    """Returns whether a pattern matches a few kilobytes at once; nested repetition may take 0.2 s."""
    return bool(_compiled(pattern).programsize <= _QUICK_PROGRAM)


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    return re2.compile(_UNICODE_ESCAPE.sub(r"\1\\x{\2}", pattern), options)


Declaration = JsonMapping

_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_S3_PREFIX: Final = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])/((?s:.*))")
_LONGEST_S3_KEY: Final = 1_024
_MAX_SHOWN: Final = 20
_LONGEST_NAME_SHOWN: Final = 200


def effective_parameters(declared: Iterable[Declaration], given: JsonMapping) -> JsonObject:
    """Returns the values of a start with defaults filled in, in the order of the declaration.

    An optional parameter without value and default is omitted. Null is a value of the type `json`, and counts as absent
    for every other type. The value of an `s3_prefix` must lie inside the `bucket` and `prefixes` of its declaration, if
    present.

    Raises:
        ApiError: `invalid_parameters` with every problem at once.
    """
    problems: list[tuple[str, str]] = []
    values: JsonObject = {}
    names = set()
    for declaration in declared:
        name = declaration["name"]
        names.add(name)
        value = given.get(name)
        if value is None and not (declaration["type"] == "json" and name in given):
            if declaration.get("default") is not None:
                value = declaration["default"]
            elif declaration.get("required"):
                problems.append((name, "is required"))
                continue
            else:
                continue
        reasons = value_problems(declaration, value)
        problems.extend((name, reason) for reason in reasons)
        values[name] = value
    undeclared = [name for name in given if name not in names]
    problems.extend((name[:_LONGEST_NAME_SHOWN], "is not a parameter of this workflow version") for name in undeclared)
    if problems:
        raise ApiError(errors_pb2.ERROR_REASON_INVALID_PARAMETERS, problems=problems)
    return values


def validates_quickly(declared: Iterable[Declaration]) -> bool:
    """Returns whether `effective_parameters` validates a few kilobytes in a small fraction of a millisecond."""
    return all(is_quick(declaration["pattern"]) for declaration in declared if declaration.get("pattern") is not None)


def value_problems(declaration: Declaration, value: object) -> list[str]:
    """Returns the problems of a value by its declaration, each worded to complete "the value …"; empty if it fits."""
    wrong_type = _TYPES[declaration["type"]](value)
    if wrong_type:
        return [wrong_type]
    return [
        reason
        for name, rule in _RULES.items()
        if declaration.get(name) is not None
        for reason in rule(declaration, value)
    ]


def parse_s3_prefix(uri: str) -> tuple[str, str]:
    """Parses `s3://bucket/prefix/` to bucket and prefix; the prefix may be empty.

    Raises:
        ValueError: the URI has another form; the text is for a person.
    """
    match = _S3_PREFIX.fullmatch(uri)
    if not match or (match[2] and not match[2].endswith("/")):
        raise ValueError("must be of the form s3://bucket/prefix/")
    if len(match[2].encode()) > _LONGEST_S3_KEY:
        raise ValueError(f"must have a prefix of at most {_LONGEST_S3_KEY:,} bytes")
    if {".", ".."} & set(match[2].split("/")):
        raise ValueError("must not have . or .. as a part of the prefix")
    return match[1], match[2]


def may_read(connector: JsonMapping, bucket: str, prefix: str) -> bool:
    """Returns whether a connector allows a prefix by its `bucket` and `prefixes`; without prefixes it allows all."""
    allowed = connector["prefixes"]
    return bool(bucket == connector["bucket"] and (not allowed or prefix.startswith(tuple(allowed))))


def _is_text(value: object) -> str | None:
    return None if isinstance(value, str) else "must be a string"


def _is_integer(value: object) -> str | None:
    return None if isinstance(value, int) and not isinstance(value, bool) else "must be an integer"


def _is_number(value: object) -> str | None:
    return None if isinstance(value, int | float) and not isinstance(value, bool) else "must be a number"


def _is_boolean(value: object) -> str | None:
    return None if isinstance(value, bool) else "must be true or false"


def _is_date(value: object) -> str | None:
    try:
        if isinstance(value, str) and _DATE.fullmatch(value):
            dt.date.fromisoformat(value)
            return None
    except ValueError:
        pass
    return "must be a date of the form 2026-09-24"


def _is_s3_prefix(value: object) -> str | None:
    if not isinstance(value, str):
        return "must be of the form s3://bucket/prefix/"
    try:
        parse_s3_prefix(value)
    except ValueError as error:
        return str(error)
    return None


def _inside_connector(declaration: Declaration, value: str) -> Iterable[str]:
    if not may_read(declaration, *parse_s3_prefix(value)):
        yield "must lie inside what the workflow's connector may read"


def _in_enum(declaration: Declaration, value: object) -> Iterable[str]:
    allowed = declaration["enum"]
    if value not in allowed:
        shown = ", ".join(str(one) for one in allowed[:_MAX_SHOWN])
        yield f"must be one of: {shown}{', …' if len(allowed) > _MAX_SHOWN else ''}"


def _at_least(declaration: Declaration, value: float) -> Iterable[str]:
    if value < declaration["minimum"]:
        yield f"must be at least {declaration['minimum']}"


def _at_most(declaration: Declaration, value: float) -> Iterable[str]:
    if value > declaration["maximum"]:
        yield f"must be at most {declaration['maximum']}"


def _long_enough(declaration: Declaration, value: str) -> Iterable[str]:
    if len(value) < declaration["min_length"]:
        yield f"must have at least {declaration['min_length']:,} characters"


def _short_enough(declaration: Declaration, value: str) -> Iterable[str]:
    if len(value) > declaration["max_length"]:
        yield f"must have at most {declaration['max_length']:,} characters"


def _in_pattern(declaration: Declaration, value: str) -> Iterable[str]:
    if not matches(declaration["pattern"], value):
        yield f"must match the pattern {declaration['pattern']}"


_TYPES: Final[Mapping[str, Callable[[Any], str | None]]] = {
    "string": _is_text,
    "integer": _is_integer,
    "number": _is_number,
    "boolean": _is_boolean,
    "date": _is_date,
    "json": lambda _: None,
    "s3_prefix": _is_s3_prefix,
}

_RULES: Final[Mapping[str, Callable[[Declaration, Any], Iterable[str]]]] = {
    "enum": _in_enum,
    "minimum": _at_least,
    "maximum": _at_most,
    "min_length": _long_enough,
    "max_length": _short_enough,
    "pattern": _in_pattern,
    "bucket": _inside_connector,
}
