"""Paths of files that stay apart on systems that ignore case or Unicode normalization (docs/agents.md)."""

import itertools
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

_LONGEST_NAME: Final = 255
_LONGEST_EXTENSION: Final = 16

Key = TypeVar("Key")


def distinct_paths(paths: Mapping[Key, str], mark: Callable[[Key, int], str]) -> dict[Key, str]:
    """Returns a path for each key; one that collides with an earlier one, or with a folder, gets a mark in its name.

    `mark` returns the mark of a key for an attempt: 0, then 1 and so on while the marked path is taken.
    """
    all_folded = [folded(path) for path in paths.values()]
    folders = {parent for path in all_folded for parent in _parents(path)}
    others = folders.union(all_folded)
    taken: set[str] = set()
    next_attempt: dict[str, int] = {}
    distinct: dict[Key, str] = {}
    for (key, path), same in zip(paths.items(), all_folded, strict=True):
        name, distinct[key] = same, path
        if same in taken or same in folders:
            for attempt in itertools.count(next_attempt.get(same, 0)):
                distinct[key] = marked(path, mark(key, attempt))
                name = folded(distinct[key])
                if name not in taken and name not in others:
                    next_attempt[same] = attempt + 1
                    break
        taken.add(name)
    return distinct


def folded(path: str) -> str:
    """Returns a form that is equal for paths that differ by case or Unicode normalization alone."""
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", path).casefold())


def marked(path: str, mark: str) -> str:
    """Returns the path with `~` and a mark before the extension, its name cut to 255 bytes."""
    folder, slash, name = path.rpartition("/")
    stem, dot, extension = name.rpartition(".")
    if not stem or len(extension.encode()) > _LONGEST_EXTENSION:
        stem, dot, extension = name, "", ""
    ending = f"~{mark}{dot}{extension}"
    stem = stem.encode()[: _LONGEST_NAME - len(ending.encode())].decode(errors="ignore")
    return f"{folder}{slash}{stem}{ending}"


def _parents(path: str) -> Iterable[str]:
    while path := path.rpartition("/")[0]:
        yield path
