"""Expands zips in confined processes, because callers choose their content."""

import shutil
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from backend.isolation.confined import ConfinedError, ConfinedPool, FailureKind
from backend.services.uploads.rules import MOST_BYTES, MOST_FILES, path_problem, printable
from redaction.safe_paths import safe_member

_CONCURRENT: Final = 2
_CPU_SECONDS: Final = 60.0
# Shorter than the console's timeout, so that its user learns the reason.
_WALL_SECONDS: Final = 240.0
_MEMORY_BYTES: Final = 256 * 2**20
_LONGEST_PROBLEM: Final = 1_000
_UNREADABLE: Final = "cannot be read"
_TOO_COSTLY: Final = "takes more time or memory to expand than is allowed"
_NOT_CAUSED_BY_ZIP: Final = frozenset({FailureKind.CLOSED, FailureKind.UNAVAILABLE})


class ZipRefusedError(Exception):
    """A zip is refused; the text completes "the zip …"."""


class ExpansionHaltedError(Exception):
    """Expansion was halted, because nobody waits for the zip any more."""


class ExpansionsBusyError(Exception):
    """No slot is free for another zip."""


class ExpandedZip:
    """An expanded zip: pairs of path and size of its members, and a file with their concatenated contents."""

    def __init__(self, members: list[tuple[str, int]], content: Path) -> None:
        self.members = members
        self.content = content


class ZipExpansion:
    """Client of the processes that expand zips. Thread-safe; the first call starts one, and `close` ends them all.

    `folder` is for temporary copies of zips and of their contents.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pool = ConfinedPool("backend.services.uploads.program", name="uploads", size=_CONCURRENT, spare=False)
        # Each slot holds one of the few threads that all other calls need too.
        self._slots = threading.BoundedSemaphore(_CONCURRENT)
        self._lock = threading.Lock()
        # Copies left by a process that was killed.
        shutil.rmtree(folder, ignore_errors=True)

    def folder(self) -> "tempfile.TemporaryDirectory[str]":
        """Returns a new temporary folder for one zip, as a context manager."""
        with self._lock:
            self._folder.mkdir(parents=True, exist_ok=True)
            return tempfile.TemporaryDirectory(dir=self._folder)

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Admits one zip, without waiting; `expand` is called within.

        Raises:
            ExpansionsBusyError: no slot is free.
        """
        if not self._slots.acquire(blocking=False):
            raise ExpansionsBusyError
        try:
            yield
        finally:
            self._slots.release()

    def expand(self, parts: Iterable[bytes], folder: Path, owner: str, room: int, halt: threading.Event) -> ExpandedZip:
        """Expands the zip made of `parts` into `folder`, to at most `room` bytes, unless `halt` is set before.

        Raises:
            ZipRefusedError: the zip is malformed or hostile, or exceeds the bounds.
            ExpansionHaltedError: `halt` was set.
            OSError: the disk is full, or the processes cannot be used.
        """
        zipped, content = folder / "zip", folder / "content"
        with zipped.open("wb") as file:
            for part in parts:
                if halt.is_set():
                    raise ExpansionHaltedError
                file.write(part)
        if halt.is_set():
            raise ExpansionHaltedError
        bound = f"{MOST_BYTES:,} bytes" if room >= MOST_BYTES else "the service has room for"
        bounds = {"most_members": MOST_FILES, "most_bytes": min(MOST_BYTES, room), "bound": bound}
        with zipped.open("rb") as source, content.open("wb") as target:
            try:
                found = self._pool.run(
                    "expand",
                    bounds,
                    owner=owner,
                    cpu_seconds=_CPU_SECONDS,
                    memory_bytes=_MEMORY_BYTES,
                    descriptors=(source.fileno(), target.fileno()),
                    halt=halt,
                    most_wall_seconds=_WALL_SECONDS,
                )
            except ConfinedError as error:
                if error.kind is FailureKind.HALTED:
                    raise ExpansionHaltedError from None
                if error.kind in _NOT_CAUSED_BY_ZIP:
                    raise OSError(str(error)) from None
                raise ZipRefusedError(_TOO_COSTLY if error.kind is not FailureKind.FAILED else str(error)) from None
        return ExpandedZip(checked_members(found, content.stat().st_size), content)

    def close(self) -> None:
        """Ends the processes."""
        self._pool.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def checked_members(answer: object, size: int) -> list[tuple[str, int]]:
    """Checks a process's answer, which a hostile zip may control, and returns path and size of each member.

    `size` is the size of all contents together.

    Raises:
        ZipRefusedError: the answer is a problem, or not what `backend.services.uploads.program` answers.
    """
    match answer:
        case {"problem": str(problem)}:
            raise ZipRefusedError(printable(problem, _LONGEST_PROBLEM))
        case {"members": list(members)} if len(members) <= MOST_FILES:
            found = [_member(member) for member in members]
        case _:
            raise ZipRefusedError(_UNREADABLE)
    if sum(each for _, each in found) != size or size > MOST_BYTES:
        raise ZipRefusedError(_UNREADABLE)
    if path_problem([path for path, _ in found], ()) is not None:
        raise ZipRefusedError(_UNREADABLE)
    return found


def _member(member: object) -> tuple[str, int]:
    match member:
        case [str(path), int(size)] if not isinstance(size, bool) and size >= 0 and _is_safe(path):
            return path, size
    raise ZipRefusedError(_UNREADABLE)


def _is_safe(path: str) -> bool:
    # A percent sign of a safe path may be part of an encoded character, which would be encoded again.
    plain = path.replace("%", "_")
    return safe_member(plain) == plain
