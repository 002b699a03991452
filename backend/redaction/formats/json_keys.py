"""Keys of JSON that are or hold values, such as addresses of mail: replaced, and numbered so that they differ."""

import functools
import re
from typing import Final

from backend.redaction.formats.file_names import UniqueNames

# A word with an address of mail, a number of a card, account or telephone, a social security number.
_EXACT: Final = re.compile(
    r"[^@\s]{1,64}@\S{1,190}\.[^@\s.]{2,30}|(?<![0-9A-Za-z])(?:[0-9](?:[ -]?[0-9]){11,18}(?![\w-])|"
    r"[A-Z]{2}[0-9]{2}[0-9A-Z ]{11,40}|[0-9]{3}-[0-9]{2}-[0-9]{4}(?![\w-])|\+[0-9][0-9 ()./-]{6,20})"
)
_REPLACEMENT: Final = re.compile(r"\[[A-Z_]+\](?:-[0-9]+)?")
# Types of which other words may stand around a value in a part that `_EXACT` finds.
_AMONG_WORDS: Final = ("[EMAIL_ADDRESS]", "[IBAN_CODE]", "[PHONE_NUMBER]")


@functools.lru_cache(maxsize=4096)
def exact_parts(key: str) -> tuple[tuple[int, int], ...]:
    """Returns where the parts of a key begin and end that have the form of a value with a form of its own."""
    return tuple(found.span() for found in _EXACT.finditer(key))


def holds_replacement(key: str) -> bool:
    """Returns whether a key holds what is written as the replacement of a value."""
    return "[" in key and _REPLACEMENT.search(key) is not None


def is_replaced(part: str) -> bool:
    """Returns whether a part of a key, as it was swept, was a value; no other parts of keys are replaced."""
    return _REPLACEMENT.fullmatch(part) is not None or any(map(part.__contains__, _AMONG_WORDS))


class ReplacedKeys:
    """Keys of one document that are replaced: equal keys get the same, different ones never do."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._unique = UniqueNames()

    def replaced(self, key: str, new: str) -> str:
        """Returns what stands for a key; `new` has its values replaced, or is the key if that was done before."""
        if key not in self._names:
            self._names[key] = self._unique.claim(new)
        return self._names[key]
