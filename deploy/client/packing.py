"""Packs files and folders that the documents of a manifest name, below the manifest's own folder."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from backend.services.workflows.manifests.attachments import (
    LARGEST_CODE_BYTES,
    MOST_CODE_FILES,
    Attachments,
    attached_paths,
)
from backend.services.workflows.manifests.variables import NO_VARIABLES, Variables

_LEFT_OUT: Final = "__pycache__"
_COMPILED: Final = ".pyc"


class _UnreadableError(Exception):
    """Raised for a file that cannot be packed, with the reasons for a person."""

    def __init__(self, *reasons: str) -> None:
        super().__init__(*reasons)
        self.reasons = reasons


def pack(folder: Path, text: str, variables: Variables = NO_VARIABLES) -> Attachments:
    """Returns the files that the documents of a manifest `text` in `folder` name, by the values of `variables`.

    Left out of a folder are `__pycache__`, compiled modules, and names that begin with a dot. A symbolic link is
    refused, wherever it leads.
    """
    files: dict[str, bytes] = {}
    unreadable: dict[str, tuple[str, ...]] = {}
    for field, path in attached_paths(text, variables):
        try:
            files |= _tree(folder, path) if field == "source" else _file(folder, path)
        except _UnreadableError as error:
            unreadable[path] = error.reasons
        except OSError as error:
            unreadable[path] = (f"{path} cannot be read: {error.strerror}",)
    return Attachments(files, unreadable)


def files_below(folder: Path) -> Iterator[str]:
    """Yields the paths of the files in a folder that `pack` includes; unreadable folders have none."""
    yield from _below(folder, ".", [])


def _file(folder: Path, path: str) -> dict[str, bytes]:
    if not stat.S_ISREG(_status_of(folder, path).st_mode):
        raise _UnreadableError(f"must name a file; {path} is none")
    return {path: _content(folder, path)}


def _tree(folder: Path, path: str) -> dict[str, bytes]:
    if not stat.S_ISDIR(_status_of(folder, path).st_mode):
        raise _UnreadableError(f"must name a folder; {path} is none")
    problems: list[str] = []
    sizes: dict[str, int] = {}
    for place in _below(folder, path, problems):
        found = (folder / place).lstat()
        if stat.S_ISLNK(found.st_mode):
            problems.append(f"{place} must not be a symbolic link: put the file itself there")
        elif not stat.S_ISREG(found.st_mode):
            problems.append(f"{place} must be a plain file")
        else:
            sizes[place] = found.st_size
        if len(sizes) > MOST_CODE_FILES:
            problems.append(f"{path} must have at most {MOST_CODE_FILES:,} files")
            break
    if not sizes and not problems:
        problems.append(f"{path} must have at least one file")
    if (size := sum(sizes.values())) > LARGEST_CODE_BYTES:
        largest = max(sizes, key=lambda place: sizes[place])
        problems.append(
            f"{path} must have at most {LARGEST_CODE_BYTES:,} bytes; it has {size:,}, of which {largest} has "
            f"{sizes[largest]:,}"
        )
    if problems:
        raise _UnreadableError(*problems)
    return {place: _content(folder, place) for place in sizes}


def _below(folder: Path, path: str, problems: list[str]) -> Iterator[str]:
    """Yields the paths of all entries below a folder that are no folders, in order."""
    try:
        names = sorted(entry.name for entry in (folder / path).iterdir())
    except OSError as error:
        problems.append(f"{path} cannot be read: {error.strerror}")
        return
    for name in names:
        if name.startswith(".") or name == _LEFT_OUT or name.endswith(_COMPILED):
            continue
        place = name if path == "." else f"{path}/{name}"
        if not place.isprintable() or "\\" in place:
            problems.append(f"{place!r} must be a name of printable characters without a backslash")
        elif stat.S_ISDIR((folder / place).lstat().st_mode):
            yield from _below(folder, place, problems)
        else:
            yield place


def _status_of(folder: Path, path: str) -> os.stat_result:
    """Returns the status of a path below a folder; raises _UnreadableError if it is not there, or behind a link."""
    place = folder
    found = folder.stat()
    for part in Path(path).parts:
        place /= part
        shown = place.relative_to(folder)
        try:
            found = place.lstat()
        except OSError as error:
            raise _UnreadableError(f"{shown} cannot be read: {error.strerror}") from None
        if stat.S_ISLNK(found.st_mode):
            raise _UnreadableError(f"{shown} must not be a symbolic link: put the file itself there")
    return found


def _content(folder: Path, path: str) -> bytes:
    try:
        with (folder / path).open("rb") as file:
            content = file.read(LARGEST_CODE_BYTES + 1)
    except OSError as error:
        raise _UnreadableError(f"{path} cannot be read: {error.strerror}") from None
    if len(content) > LARGEST_CODE_BYTES:
        raise _UnreadableError(f"{path} must have at most {LARGEST_CODE_BYTES:,} bytes")
    return content
