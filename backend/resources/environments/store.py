"""Built packages of this machine, one folder for each lock and interpreter."""

import contextlib
import fcntl
import hashlib
import json
import math
import os
import threading
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Final

from backend.resources.environments.build import BuiltPackages, build, find
from backend.resources.environments.lock import Lock, PackagesError, interpreter_tag
from backend.resources.environments.uv import Uv, resolve
from backend.resources.roots.store import RootStore
from backend.resources.roots.tree import remove
from backend.settings import PackageSettings

_RESOLVES_AT_ONCE: Final = 2
RESOLVE_WAIT_SECONDS: Final = 5.0
"""Seconds that a call waits to resolve, because it holds one of few threads, which calls of the public API share."""
_LOCK_POLL_SECONDS: Final = 0.2
_USED: Final = "used"
_USED_SECONDS: Final = 3_600
_DAY_SECONDS: Final = 86_400
_DIGEST: Final = "[0-9a-f]" * 64
"""Pattern of the names that a store gives; anything else in its folder belongs to somebody else."""


class PackageStore:
    """Locks and builds packages below one folder, which several processes may share. Thread-safe."""

    def __init__(self, settings: PackageSettings, folder: Path, python: Callable[[], Path]) -> None:
        self._settings = settings
        self._folder = folder
        self._builds = folder / interpreter_tag()
        self._uv = Uv(settings, python)
        self.roots = RootStore(folder / "roots")
        """Roots that the operator has added to this machine."""
        self._resolving = threading.BoundedSemaphore(_RESOLVES_AT_ONCE)
        self._found: dict[str, BuiltPackages] = {}
        self._used: dict[str, float] = {}
        self._closed = threading.Event()
        self._woken = threading.Event()

    def wake(self) -> None:
        """Ends a `wait`: there may be a new lock to build."""
        self._woken.set()

    def wait(self, seconds: float) -> None:
        """Waits for `seconds`, or until `wake` or `close`."""
        self._woken.wait(seconds)
        self._woken.clear()

    def close(self) -> None:
        """Ends the resolutions and builds under way."""
        self._closed.set()
        self._woken.set()
        self._uv.close()

    def resolve(self, requirements: list[str]) -> Lock:
        """Returns a lock of the newest packages that satisfy the requirements; raises PackagesError.

        A former lock is returned again while it is younger than the settings say.
        """
        settings = self._settings
        key = json.dumps([interpreter_tag(), settings.index_url, settings.extra_index_url, *sorted(requirements)])
        lock_file = self._folder / "locks" / hashlib.sha256(key.encode()).hexdigest()
        if settings.lock_seconds:
            with contextlib.suppress(OSError):
                # A time further in the future was recorded by a clock that was ahead.
                if abs(time.time() - lock_file.stat().st_mtime) < settings.lock_seconds:
                    return Lock(lock_file.read_text())
        if not self._resolving.acquire(timeout=RESOLVE_WAIT_SECONDS):
            raise PackagesError("the packages of other environments are being resolved; apply it again in a minute")
        try:
            lock = resolve(self._uv, settings, requirements, self._folder / "scratch")
        except OSError as error:
            raise _unusable(error) from error
        finally:
            self._resolving.release()
        if settings.lock_seconds:
            with contextlib.suppress(OSError):
                lock_file.parent.mkdir(parents=True, exist_ok=True)
                written = lock_file.with_suffix(f".{os.getpid()}")
                written.write_text(lock.text)
                written.replace(lock_file)
        return lock

    def find(self, digest: str) -> BuiltPackages | None:
        """Returns the packages of a lock, if they are built on this machine."""
        found = self._found.get(digest)
        if found is None or not found.folder.exists():
            found = find(self._builds / digest)
            if found is None:
                self._found.pop(digest, None)
                return None
            self._found[digest] = found
        self._mark_used(digest)
        return found

    def ensure(self, digest: str, load: Callable[[], Lock], log: Callable[[str], None] | None = None) -> BuiltPackages:
        """Returns the packages of a lock, built now if they are missing; `load` reads the lock.

        `log` gets the output of uv, if a build takes place.

        Raises:
            PackagesError: the packages cannot be built.
        """
        found = self.find(digest)
        if found is not None:
            return found
        try:
            with self._building(digest):
                # Another process may have built them meanwhile.
                found = self.find(digest)
                if found is None:
                    found = self._found[digest] = build(self._uv, self._settings, load(), self._builds / digest, log)
                    self._mark_used(digest)
                return found
        except OSError as error:
            raise _unusable(error) from error

    def remove_unused(self, wanted: Collection[str]) -> list[str]:
        """Removes builds that are not wanted and were not used for the days of the settings; returns their digests.

        Builds for other interpreters and leftovers of killed processes are never wanted. Raises OSError.
        """
        oldest = time.time() - self._settings.keep_days * _DAY_SECONDS
        for leftover in (*self._folder.glob("scratch/resolve-*"), *self._folder.glob(f"locks/{_DIGEST}*")):
            if _last_used(leftover) < oldest:
                remove(leftover)
        removed = []
        for place in [place for place in self._folder.glob(f"*-*/{_DIGEST}") if place.is_dir()]:
            is_wanted = place.parent == self._builds and place.name in wanted
            if not is_wanted and _last_used(place) < oldest and self._remove(place):
                removed.append(place.name)
        return removed

    def _remove(self, place: Path) -> bool:
        """Removes a build unless somebody is building it now."""
        with contextlib.suppress(BlockingIOError), _exclusive(place.with_suffix(".lock")):
            remove(place)
            self._found.pop(place.name, None)
            return True
        return False

    @contextlib.contextmanager
    def _building(self, digest: str) -> Iterator[None]:
        """Excludes everybody else who builds this lock, in any process."""
        self._builds.mkdir(parents=True, exist_ok=True)
        while True:
            if self._closed.is_set():
                raise PackagesError("the service is being stopped")
            try:
                with _exclusive(self._builds / f"{digest}.lock"):
                    yield
                    return
            except BlockingIOError:
                self._closed.wait(_LOCK_POLL_SECONDS)

    def _mark_used(self, digest: str) -> None:
        """Records the use for `remove_unused`, at most once an hour."""
        now = time.monotonic()
        if now - self._used.get(digest, -math.inf) > _USED_SECONDS:
            with contextlib.suppress(OSError):
                (self._builds / digest / _USED).touch()
                self._used[digest] = now


def _unusable(error: OSError) -> PackagesError:
    return PackagesError(f"packages cannot be stored or built on this machine: {error.strerror or error}")


def _last_used(place: Path) -> float:
    for name in (place / _USED, place):
        with contextlib.suppress(OSError):
            return name.stat().st_mtime
    return 0.0


@contextlib.contextmanager
def _exclusive(file: Path) -> Iterator[None]:
    """Holds a lock on a file; raises BlockingIOError if another holder has it."""
    fd = os.open(file, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(fd)
