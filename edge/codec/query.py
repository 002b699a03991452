"""Parses the raw query of a request."""

from typing import Final
from urllib.parse import unquote_to_bytes

_RAW: Final = "surrogateescape"  # how the HTTP parser keeps bytes that are not UTF-8


def parse_query(raw: str) -> dict[str, list[str | None]]:
    """Returns the values of every parameter in order, `None` for one that is not percent-encoded UTF-8.

    `+` and `%20` are blanks. A parameter without `=` has the empty value; one whose name cannot be read is left out,
    as every unknown one is ignored.
    """
    values: dict[str, list[str | None]] = {}
    for pair in raw.split("&"):
        name, _, value = pair.replace("+", " ").partition("=")
        known = decoded(name)
        if known:
            values.setdefault(known, []).append(decoded(value))
    return values


def decoded(raw: str) -> str | None:
    """Returns the text of a percent-encoded part of a request line, `None` when it is not UTF-8."""
    if "%" not in raw and raw.isascii():
        return raw
    try:
        return unquote_to_bytes(raw.encode(errors=_RAW)).decode()
    except UnicodeDecodeError:
        return None
