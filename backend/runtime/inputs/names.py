"""File names of input objects: a safe and unique relative path for any key (docs/connectors.md)."""

import hashlib
import itertools
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Final

_MAX_FOLDERS: Final = 64
_LONGEST_PATH: Final = 1_024
_LONGEST_NAME: Final = 255
_LONGEST_EXTENSION: Final = 16
_MARK: Final = "~"
_SLASH: Final = "%2F"

# Control characters, separators of lines and paragraphs, and halves of characters.
_ENCODED: Final = frozenset({"Cc", "Zl", "Zp", "Cs"})
_DOTS: Final = {"": _SLASH, ".": "%2E", "..": "%2E%2E"}


def file_names(keys: Iterable[str]) -> Mapping[str, str]:
    """Returns the relative path for each key below an input's prefix, also where keys differ in case or form only.

    A path has no empty part, no `.` or `..`, no part above 255 bytes, at most 64 folders and little above 1,024 bytes,
    and none is a folder of another. A key that is such a path keeps it, unless it collides with an earlier one.
    """
    plain = {key: _plain(key) for key in keys}
    folders = {parent for path in plain.values() for parent in _parents(_folded(path))}
    taken: set[str] = set()
    names: dict[str, str] = {}
    for key, path in plain.items():
        name = path
        if _folded(path) in taken or _folded(path) in folders:
            name = next(
                marked
                for marked in (_marked(path, key, attempt) for attempt in itertools.count())
                if _folded(marked) not in taken and _folded(marked) not in folders
            )
        taken.add(_folded(name))
        names[key] = name
    return names


def _plain(key: str) -> str:
    parts = [_part(part) for part in key.split("/")]
    path = "/".join(parts)
    if len(parts) > _MAX_FOLDERS + 1 or len(path.encode()) > _LONGEST_PATH:
        return _marked(parts[-1], key)
    return path


def _part(part: str) -> str:
    if part in _DOTS:
        return _DOTS[part]
    name = "".join(_percent(one) if unicodedata.category(one) in _ENCODED else one for one in part)
    return name if len(name.encode()) <= _LONGEST_NAME else _marked(name, part)


def _percent(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))


def _marked(path: str, key: str, attempt: int = 0) -> str:
    """Returns the path with the key's digest before the extension, cut to the longest file name."""
    folder, slash, name = path.rpartition("/")
    stem, dot, extension = name.rpartition(".")
    if not stem or len(extension.encode()) > _LONGEST_EXTENSION:
        stem, dot, extension = name, "", ""
    digest = hashlib.sha256((key + _MARK * attempt).encode("utf-8", "surrogatepass")).hexdigest()[:16]
    ending = f"{_MARK}{digest}{dot}{extension}"
    stem = stem.encode()[: _LONGEST_NAME - len(ending.encode())].decode(errors="ignore")
    return f"{folder}{slash}{stem}{ending}"


def _folded(path: str) -> str:
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", path).casefold())


def _parents(path: str) -> Iterable[str]:
    while path := path.rpartition("/")[0]:
        yield path
