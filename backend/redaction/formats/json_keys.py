"""Keys of JSON that are values themselves, such as addresses of mail: replaced, and numbered so that they differ."""

import functools
import re
from typing import Final

from backend.redaction.formats.file_names import UniqueNames

# An address of mail, a number of a card, account or telephone, a social security number.
_EXACT: Final = re.compile(
    r"[^@\s]{1,64}@[^@\s]{1,190}\.[^@\s.]{2,30}|[0-9](?:[ -]?[0-9]){11,18}|[A-Z]{2}[0-9]{2}[0-9A-Z ]{11,40}|"
    r"[0-9]{3}-[0-9]{2}-[0-9]{4}|\+[0-9][0-9 ()./-]{6,20}"
)
_REPLACEMENT: Final = re.compile(r"\[[A-Z_]+\](?:-[0-9]+)?")


@functools.lru_cache(maxsize=4096)
def may_be_exact_value(key: str) -> bool:
    """Returns whether a key has the form of a value that has a form of its own."""
    return _EXACT.fullmatch(key) is not None


def is_replacement(key: str) -> bool:
    """Returns whether a key is written as the replacement of a value."""
    return key[:1] == "[" and _REPLACEMENT.fullmatch(key) is not None


class ReplacedKeys:
    """Keys of one document that are replaced: equal keys get the same, different ones never do."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._unique = UniqueNames()

    def replaced(self, key: str, new: str) -> str:
        """Returns what stands for a key; `new` is the replacement of its value, or the key if it is one."""
        if key not in self._names:
            self._names[key] = self._unique.claim(new)
        return self._names[key]
