"""Regular expressions that manifests bring: matched in linear time, whatever the pattern and the value.

Patterns are RE2's dialect: no back-references and no look-around, which is what makes the time bounded.
"""

import re
from functools import lru_cache
from typing import Final

import re2  # type: ignore[import-untyped]  # ships no types

LONGEST_PATTERN: Final = 1_000

# JSON Schema's patterns write a character as `\u00e9`, and RE2 as `\x{00e9}`.
_UNICODE_ESCAPE: Final = re.compile(r"(?<!\\)((?:\\\\)*)\\u([0-9A-Fa-f]{4})")


def check_pattern(pattern: str) -> str:
    """Returns the pattern.

    Raises:
        ValueError: it is too long or not a regular expression of this dialect; worded for a person.
    """
    if len(pattern) > LONGEST_PATTERN:
        raise ValueError(f"must have at most {LONGEST_PATTERN:,} characters")
    try:
        _compiled(pattern)
    except re2.error as error:
        cause = error.args[0].decode(errors="replace") if error.args else "not readable"
        raise ValueError(f"must be a regular expression without look-around or back-references: {cause}") from None
    return pattern


def search(pattern: str, value: str) -> bool:
    """Whether a pattern matches anywhere in the value.

    Raises:
        ValueError: this engine does not read the pattern.
    """
    try:
        return _compiled(pattern).search(value) is not None
    except re2.error:
        raise ValueError(f"not a regular expression without look-around or back-references: {pattern[:200]}") from None


def matches(pattern: str, value: str) -> bool:
    """Whether the whole value matches a pattern that `check_pattern` accepted."""
    return _compiled(pattern).fullmatch(value) is not None


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> "re2._Regexp":
    options = re2.Options()
    options.log_errors = False
    return re2.compile(_UNICODE_ESCAPE.sub(r"\1\\x{\2}", pattern), options)
