"""Sweeps the names of files: what comes out is a legal path again, and no two names become one."""

import posixpath
from collections.abc import Callable, Sequence
from typing import Final

from backend.output_paths import plain_part, safe_part
from backend.redaction.formats.file_extensions import ENDINGS
from backend.redaction.rules.rule import Match
from backend.redaction.search.spans import replaced

# Room for a number that tells it from another name.
_LONGEST_PART: Final = 240
_WORDS: Final = str.maketrans("_+", "  ")


def swept_name(path: str, find: Callable[[str], Sequence[Match]]) -> tuple[str, list[str]]:
    """The path with every part's values replaced, and their entity types.

    The ending of a known kind of file stays apart, so that an address before it does not swallow it.
    """
    parts = []
    entities: list[str] = []
    for part in path.split("/"):
        swept, matches = _swept_part(part, find)
        parts.append(swept)
        entities += [match.entity for match in matches]
    return "/".join(parts), entities


def _swept_part(part: str, find: Callable[[str], Sequence[Match]]) -> tuple[str, Sequence[Match]]:
    stem, ending = split_ending(part)
    # A character that is encoded (docs/agents.md) may be the edge of a value.
    for text in dict.fromkeys((plain_part(stem), stem)):
        # An underscore is a letter to an address, and a space to a number.
        matches = find(text) or find(text.translate(_WORDS))
        if matches:
            return safe_part(_short(replaced(text, matches), ending)), matches
    return part, ()


def _short(stem: str, ending: str) -> str:
    # A replacement may be longer than its value, and a file system takes 255 bytes.
    room = _LONGEST_PART - len(ending.encode())
    return stem.encode()[:room].decode(errors="ignore") + ending


def split_ending(name: str) -> tuple[str, str]:
    """A name without the endings of known kinds of file, and those: `a.csv.gz` is `a` and `.csv.gz`."""
    stem, ending = posixpath.splitext(name)
    if not stem or ending.lower() not in ENDINGS:
        return name, ""
    stem, more = split_ending(stem)
    return stem, more + ending


class FreeNames:
    """Gives each file a name of its own: where `a/b.csv` is taken, `a/b-2.csv`, then `a/b-3.csv`."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._next_number: dict[str, int] = {}

    def take(self, path: str) -> str:
        """The path, or the next one beside it that nobody has; in constant time on average."""
        free, number = path, self._next_number.get(path, 2)
        while free in self._taken:
            free, number = _numbered(path, number), number + 1
        self._next_number[path] = number
        self._taken.add(free)
        return free


def _numbered(path: str, number: int) -> str:
    folder, slash, name = path.rpartition("/")
    stem, ending = split_ending(name)
    return f"{folder}{slash}{stem}-{number}{ending}"
