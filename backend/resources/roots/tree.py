"""Writes the tree of a root below a new folder: from a folder or from layers, within bounds, and never outside."""

import hashlib
import os
import shutil
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import IO, Final

from backend.isolation.sandbox.root_view import PARTS, resolved

MOST_FILES: Final = 400_000
MOST_BYTES: Final = 16 * 2**30
LONGEST_PATH: Final = 1_024
CHUNK: Final = 2**20
_DEEPEST: Final = 64


class RootError(Exception):
    """A root cannot be made, found or removed; the message is for a person."""


class RootTree:
    """Tree of a root that is being written; nobody else writes to its folder meanwhile.

    Everything gets the least rights that all steps need: folders and programs 0555, other files 0444. So no file
    keeps a bit such as setuid. Devices, pipes and sockets are left out.
    """

    def __init__(self, folder: Path, *, most_files: int = MOST_FILES, most_bytes: int = MOST_BYTES) -> None:
        self._folder = folder
        self._most_files, self._most_bytes = most_files, most_bytes
        self.files = 0
        self.size = 0
        self._times: dict[Path, float] = {}

    def kept_path(self, name: str) -> str | None:
        """Returns the path of an entry without a leading `/`; None if it is no part of a root that is kept.

        Raises:
            RootError: the path leads upwards, or is too long or too deep.
        """
        path = _relative(name)
        return path if any(_within(path, part) for part in PARTS) else None

    def add_folder(self, path: str, modified: float) -> None:
        """Writes a folder, in place of whatever else has its path."""
        place = self._place(path)
        if not _is_folder(place):
            self._clear(place)
            self._count()
            place.mkdir(0o755)
        self._times[place] = modified

    def add_link(self, path: str, target: str) -> None:
        """Writes a symbolic link, which is only ever followed inside the root."""
        if not target or len(os.fsencode(target)) > LONGEST_PATH or "\0" in target:
            raise RootError(f"it has a link with a target that is not allowed: {path}")
        place = self._place(path)
        self._clear(place)
        self._count()
        place.symlink_to(target)

    def add_file(self, path: str, content: IO[bytes], *, program: bool, modified: float) -> None:
        """Writes a file."""
        place = self._place(path)
        self._clear(place)
        self._count()
        fd = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            while chunk := content.read(CHUNK):
                self._add_bytes(len(chunk))
                file.write(chunk)
            file.flush()
            os.fchmod(fd, 0o555 if program else 0o444)
            os.utime(fd, (modified, modified))

    def add_name(self, path: str, other: str) -> None:
        """Writes a second name of a file of this tree. Raises RootError if there is no such file."""
        source = self._place(other)
        if source.is_symlink():
            self.add_link(path, str(source.readlink()))
            return
        if not source.is_file():
            raise RootError(f"it has a link to a file that it does not have: {other}")
        place = self._place(path)
        if place == source:
            return
        self._clear(place)
        self._count()
        # Counted as its content, so that the size does not depend on how a source names a file twice.
        self._add_bytes(source.stat().st_size)
        os.link(source, place)

    def hide(self, name: str, *, itself: bool) -> None:
        """Removes all below a path, and the path `itself`. Raises RootError: see `kept_path`."""
        path = _relative(name)
        parent, _, last = path.rpartition("/")
        place = resolved(self._folder, parent) / last
        if itself and path:
            self._clear(place)
        elif _is_folder(place):
            for each in list(place.iterdir()):
                self._clear(each)

    def finish(self) -> None:
        """Makes all folders read-only, with their times; removes folders that hold no part that is kept."""
        for above in sorted({str(folder) for part in PARTS for folder in PurePosixPath(part).parents}, reverse=True):
            with suppress(OSError):
                (self._folder / above).rmdir()
        for parent, _, _ in os.walk(self._folder, topdown=False):
            folder = Path(parent)
            modified = self._times.get(folder)
            if modified is not None:
                os.utime(folder, (modified, modified))
            folder.chmod(0o555)

    def _place(self, path: str) -> Path:
        """Returns the path on the host of an entry, whose parents are made and are never links out of the root."""
        parent, _, name = path.rpartition("/")
        folder = resolved(self._folder, parent)
        if not folder.is_dir():
            with suppress(OSError):
                folder.mkdir(0o755, parents=True)
            if not folder.is_dir():
                raise RootError(f"it has an entry below a file: {path}")
        return folder / name

    def _clear(self, place: Path) -> None:
        if _is_folder(place):
            shutil.rmtree(place)
        elif place.parent.is_dir():
            place.unlink(missing_ok=True)

    def _count(self) -> None:
        self.files += 1
        if self.files > self._most_files:
            raise RootError(f"it has more than {self._most_files:,} files")

    def _add_bytes(self, count: int) -> None:
        self.size += count
        if self.size > self._most_bytes:
            raise RootError(f"it has more than {self._most_bytes // 2**20:,} MB of files")


def copy_folder(source: Path, tree: RootTree) -> None:
    """Writes the kept parts of a folder into a tree; follows no link. Raises OSError and RootError."""
    for part in PARTS:
        parts = part.split("/")
        if any(_kind(source.joinpath(*parts[:count])) != stat.S_IFDIR for count in range(1, len(parts))):
            continue
        _copy(source, part, tree)


def _copy(source: Path, path: str, tree: RootTree) -> None:
    place = source / path
    kind = _kind(place)
    if kind == stat.S_IFLNK:
        tree.add_link(path, str(place.readlink()))
    elif kind == stat.S_IFDIR:
        tree.kept_path(path)
        tree.add_folder(path, _modified(place.lstat().st_mtime))
        for name in sorted(each.name for each in place.iterdir()):
            _copy(source, f"{path}/{name}", tree)
    elif kind == stat.S_IFREG:
        tree.kept_path(path)
        with os.fdopen(os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
            about = os.fstat(file.fileno())
            tree.add_file(path, file, program=bool(about.st_mode & 0o111), modified=_modified(about.st_mtime))


def digest_of(folder: Path) -> str:
    """Returns the SHA-256 of a finished tree: of the paths in order, with kind, rights, targets and contents."""
    found = hashlib.sha256()
    for path in sorted(_paths(folder), key=os.fsencode):
        place = folder / path
        about = place.lstat()
        if stat.S_ISLNK(about.st_mode):
            fields = ("link", path, str(place.readlink()))
        elif stat.S_ISDIR(about.st_mode):
            fields = ("folder", path, "")
        else:
            with place.open("rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
            fields = ("program" if about.st_mode & 0o111 else "file", path, content)
        found.update(b"".join(os.fsencode(field) + b"\0" for field in fields))
    return found.hexdigest()


def remove(place: Path) -> None:
    """Removes a file, or a folder with read-only folders in it; ignores failures."""
    if place.is_file():
        place.unlink(missing_ok=True)
        return
    for parent, _, _ in os.walk(place):
        with suppress(OSError):
            Path(parent).chmod(0o755)
    shutil.rmtree(place, ignore_errors=True)


def _paths(folder: Path) -> Iterable[str]:
    for parent, folders, files in os.walk(folder):
        yield from (os.path.relpath(os.path.join(parent, name), folder) for name in (*folders, *files))  # noqa: PTH118 - for each of many files


def _kind(place: Path) -> int:
    try:
        return stat.S_IFMT(place.lstat().st_mode)
    except FileNotFoundError:
        return 0


def _modified(seconds: float) -> float:
    return float(max(0, int(seconds)))


def _is_folder(place: Path) -> bool:
    return place.is_dir() and not place.is_symlink()


def _relative(name: str) -> str:
    """Returns the path of an entry without a leading `/`; raises RootError if it leads upwards, or is too long."""
    parts = [part for part in PurePosixPath(name).parts if part not in {"/", "//", "."}]
    if ".." in parts or len(parts) > _DEEPEST or len(os.fsencode(name)) > LONGEST_PATH or "\0" in name:
        raise RootError(f"it has an entry with a path that is not allowed: {name[:200]!r}")
    return "/".join(parts)


def _within(path: str, folder: str) -> bool:
    """Returns whether a path is a folder or below it."""
    return path == folder or path.startswith(f"{folder}/")
