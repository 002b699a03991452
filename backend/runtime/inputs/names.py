"""File names of input objects: a safe and unique relative path for any key (docs/connectors.md)."""

import hashlib
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Final

from backend.distinct_paths import distinct_paths, marked

_MAX_FOLDERS: Final = 64
_LONGEST_PATH: Final = 1_024
_LONGEST_NAME: Final = 255
_SLASH: Final = "%2F"

# Control characters, separators of lines and paragraphs, and halves of characters.
_ENCODED: Final = frozenset({"Cc", "Zl", "Zp", "Cs"})
_DOTS: Final = {"": _SLASH, ".": "%2E", "..": "%2E%2E"}


def file_names(keys: Iterable[str]) -> Mapping[str, str]:
    """Returns the relative path for each key below an input's prefix, also where keys differ in case or form only.

    A path has no empty part, no `.` or `..`, no part above 255 bytes, at most 64 folders and little above 1,024 bytes,
    and none is a folder of another. A key that is such a path keeps it, unless it collides with an earlier one.
    """
    return distinct_paths({key: _plain(key) for key in keys}, _digest)


def _plain(key: str) -> str:
    parts = [_part(part) for part in key.split("/")]
    path = "/".join(parts)
    if len(parts) > _MAX_FOLDERS + 1 or len(path.encode()) > _LONGEST_PATH:
        return marked(parts[-1], _digest(key))
    return path


def _part(part: str) -> str:
    if part in _DOTS:
        return _DOTS[part]
    name = "".join(_percent(one) if unicodedata.category(one) in _ENCODED else one for one in part)
    return name if len(name.encode()) <= _LONGEST_NAME else marked(name, _digest(part))


def _percent(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))


def _digest(key: str, attempt: int = 0) -> str:
    return hashlib.sha256((key + "~" * attempt).encode("utf-8", "surrogatepass")).hexdigest()[:16]
