"""Regular expressions of manifests, matched in linear time for every pattern and value.

Patterns are in the dialect of RE2, which has neither back-references nor look-around for that reason.
"""

import re
from functools import lru_cache
from typing import Any, Final

import re2  # type: ignore[import-untyped]  # ships no types

LONGEST_PATTERN: Final = 1_000

# The largest program of a pattern that any text of 2 KB is matched with in well under a millisecond.
_QUICK_PROGRAM: Final = 400

# Patterns of JSON Schema write a character as `\u00e9`, those of RE2 as `\x{00e9}`.
_UNICODE_ESCAPE: Final = re.compile(r"(?<!\\)((?:\\\\)*)\\u([0-9A-Fa-f]{4})")


def check_pattern(pattern: str) -> str:
    """Returns the pattern if it is valid.

    Raises:
        ValueError: it is too long or not a regular expression of this dialect; the text is for a person.
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
    """Returns whether all of the value matches a pattern that `check_pattern` accepted."""
    return _compiled(pattern).fullmatch(value) is not None


def is_quick(pattern: str) -> bool:
    """Returns whether any text of a few kilobytes is matched at once; with nested repetition it can take 0.2 s."""
    return bool(_compiled(pattern).programsize <= _QUICK_PROGRAM)


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    return re2.compile(_UNICODE_ESCAPE.sub(r"\1\\x{\2}", pattern), options)
