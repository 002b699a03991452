"""Roots of this machine, each in a folder with its name."""

import fcntl
import hashlib
import json
import os
import platform
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from backend.isolation.sandbox import SandboxUnavailableError, StepRoot, interpreter
from backend.isolation.sandbox.host_libraries import host_libraries
from backend.isolation.sandbox.root_links import make_links
from backend.isolation.sandbox.root_view import resolved
from backend.resources.roots.image import unpack_image
from backend.resources.roots.tree import RootError, RootTree, copy_folder, digest_of, remove

LONGEST_NAME: Final = 80
NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]*")
NAME_MUST: Final = f"must be 1 to {LONGEST_NAME} lowercase letters, digits, dots, dashes and underscores"
_RECORD: Final = "root.json"
_TREE: Final = "root"
_LINKS: Final = "links"
_NEW: Final = ".new-"
_ABANDONED_SECONDS: Final = 3_600.0
_LIBC: Final = re.compile(rb"GNU C Library [^\n]{0,80} release version (\d{1,4}\.\d{1,4})")
_MOST_LIBC_BYTES: Final = 64 * 2**20


@dataclass(frozen=True, slots=True)
class Root:
    """A root of this machine; `added_at` is in milliseconds. `c_library` is the C library and its version."""

    name: str
    digest: str
    files: int
    size: int
    c_library: str
    added_at: int


class RootStore:
    """Adds, finds and removes the roots below one folder, which several processes may share. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._found: dict[Root, StepRoot] = {}

    def add(self, name: str, source: Path, now: int) -> Root:
        """Unpacks a folder or an image archive as a new root.

        It appears as a whole, or not at all.

        Raises:
            RootError: the name is taken or not allowed, or the source is no root that works here.
            OSError: the source cannot be read, or the disk is full.
        """
        place = self._place(name)
        if place.exists():
            raise RootError(f"a root '{name}' exists on this machine: choose another name, or remove it first")
        self._folder.mkdir(parents=True, exist_ok=True)
        self._remove_abandoned()
        with self._scratch() as scratch:
            folder = scratch / _TREE
            folder.mkdir()
            tree = RootTree(folder)
            if source.is_dir():
                copy_folder(source, tree)
            else:
                unpack_image(source, tree, scratch)
            tree.finish()
            _check_folders(folder)
            _check_architecture(folder)
            root = Root(name, digest_of(folder), tree.files, tree.size, _c_library(folder), now)
            record = {each: getattr(root, each) for each in Root.__slots__ if each != "name"}
            (scratch / _RECORD).write_text(json.dumps(record), encoding="utf-8")
            scratch.chmod(0o755)
            try:
                scratch.rename(place)
            except OSError:
                raise RootError(f"a root '{name}' exists on this machine") from None
        return root

    @contextmanager
    def _scratch(self) -> Iterator[Path]:
        """Yields a new folder, locked as long as it is in use and removed where the block raises."""
        scratch = Path(tempfile.mkdtemp(prefix=_NEW, dir=self._folder))
        lock = os.open(scratch, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield scratch
        except BaseException:
            remove(scratch)
            raise
        finally:
            os.close(lock)

    def _remove_abandoned(self) -> None:
        """Removes what killed processes left: folders of an hour and more that nobody has locked."""
        for path in self._folder.glob(f"{_NEW}*"):
            try:
                lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            except OSError:
                continue
            try:
                if time.time() - os.fstat(lock).st_mtime >= _ABANDONED_SECONDS:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    remove(path)
            except BlockingIOError:
                pass
            finally:
                os.close(lock)

    def get(self, name: str) -> Root | None:
        """Returns a root by name, or None."""
        try:
            record = json.loads((self._place(name) / _RECORD).read_text(encoding="utf-8"))
            return Root(name, **record)
        except (OSError, ValueError, TypeError, RootError):
            return None

    def all(self) -> list[Root]:
        """Returns the roots by name."""
        names = sorted(path.name for path in self._folder.iterdir()) if self._folder.is_dir() else []
        return [root for name in names if (root := self.get(name)) is not None]

    def remove(self, name: str) -> None:
        """Removes a root; processes that have it open keep what they opened.

        Raises:
            RootError: there is no such root.
        """
        place = self._place(name)
        if not place.is_dir():
            raise RootError(f"there is no root '{name}' on this machine")
        # Renamed first, so that no step finds half of it.
        going = Path(tempfile.mkdtemp(prefix=_NEW, dir=self._folder))
        place.rename(going / name)
        remove(going)

    def for_step(self, name: str, digest: str) -> StepRoot:
        """Returns the root that a version of an environment names.

        Raises:
            RootError: it is missing on this machine, differs from that digest, or has no links.
        """
        root = self.get(name)
        if root is None:
            raise RootError(f"the root '{name}' is not on this machine, and must have the digest {digest}")
        if root.digest != digest:
            raise RootError(f"the root '{name}' has the digest {root.digest} on this machine, and must have {digest}")
        if root not in self._found:
            place = self._place(name).resolve()
            self._found[root] = StepRoot(place / _TREE, self._links(place), digest, root.c_library)
        return self._found[root]

    def _links(self, place: Path) -> Path:
        """Returns the folder of links, which depend on the libraries of the machine's interpreter."""
        try:
            key = json.dumps([str(place), sorted(host_libraries().libraries)])
            links = place / f"{_LINKS}-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
            if not links.exists():
                scratch = Path(tempfile.mkdtemp(prefix=_NEW, dir=place))
                # Links are named by their own path, so they are made for the folder's final one.
                make_links(place / _TREE, scratch, links)
                scratch.chmod(0o755)
                try:
                    scratch.rename(links)
                except OSError:
                    # Another process was faster; its links are equal.
                    remove(scratch)
                    if not links.is_dir():
                        raise
        except (OSError, SandboxUnavailableError) as error:
            raise RootError(f"the root '{place.name}' cannot be used: {error}") from error
        return links

    def _place(self, name: str) -> Path:
        if not NAME.fullmatch(name) or len(name) > LONGEST_NAME:
            raise RootError(f"the name of a root {NAME_MUST}, not {name[:LONGEST_NAME]!r}")
        return self._folder / name


def _check_folders(root: Path) -> None:
    if not (root / "usr").is_dir() or (root / "usr").is_symlink():
        raise RootError("it has no folder usr: it must be a root file system, as debootstrap makes it")


def _check_architecture(root: Path) -> None:
    """Refuses a root whose programs or C library are for another kind of machine."""
    own = _elf_header(interpreter.executable())
    other = next((header for file in _samples(root) if (header := _elf_header(file)) is not None), own)
    if other != own:
        raise RootError(f"its programs are for another kind of machine than this, which is {platform.machine()}")


def _samples(root: Path) -> Iterator[Path]:
    """Yields programs of a root that every distribution has, then any others."""
    for path in ("bin/sh", "usr/bin/env", "bin/busybox"):
        file = resolved(root, path)
        if file.is_file():
            yield file
    for part in ("usr/bin", "usr/lib", "bin", "lib"):
        folder = resolved(root, part)
        if folder.is_dir():
            yield from sorted(path for path in folder.iterdir() if path.is_file() and not path.is_symlink())


def _elf_header(file: Path) -> bytes | None:
    """Returns the part of an ELF file's header that tells its kind of machine, or None."""
    with file.open("rb") as opened:
        start = opened.read(20)
    return start[4:6] + start[18:20] if start.startswith(b"\x7fELF") else None


def _c_library(root: Path) -> str:
    """Returns the C library of a root as `StepRoot.c_library`."""
    for pattern in ("usr/lib/*/libc.so.6", "lib/*/libc.so.6", "usr/lib*/libc.so.6", "lib*/libc.so.6"):
        for link in sorted(root.glob(pattern)):
            file = resolved(root, str(link.relative_to(root)))
            if file.is_file() and (found := _LIBC.search(_start_of(file))):
                return f"glibc {found[1].decode()}"
    musl = any(True for pattern in ("lib/ld-musl-*", "usr/lib/ld-musl-*") for _ in root.glob(pattern))
    return "musl" if musl else ""


def _start_of(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(_MOST_LIBC_BYTES)
