"""Builds the packages of a lock into a folder that nobody writes to afterwards."""

import json
import os
import secrets
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from backend.resources.environments.lock import Lock
from backend.resources.environments.uv import MEBIBYTE, Uv
from backend.resources.roots.tree import remove
from backend.settings import PackageSettings

# Byte code is compiled at the build, because steps cannot store it. Compiling runs no code of a package.
_COMMAND: Final = (
    "install",
    "--require-hashes",
    "--no-deps",
    "--only-binary",
    ":all:",
    "--compile-bytecode",
    "-r",
    "-",
)
_RECORD: Final = "built.json"
_NO_MODULES: Final = frozenset({"__pycache__", "bin"})
_MODULE_ENDS: Final = (".py", ".so")


@dataclass(frozen=True, slots=True)
class BuiltPackages:
    """Packages that are built: the folder for `sys.path`, its top-level modules, and its size."""

    folder: Path
    modules: tuple[str, ...]
    files: int
    size: int


def build(
    uv: Uv, settings: PackageSettings, lock: Lock, place: Path, log: Callable[[str], None] | None = None
) -> BuiltPackages:
    """Builds the packages of a lock below `place`, replacing its content; `log` gets the output of uv.

    A failed build leaves nothing: another try may never come, and its files may have filled the disk.

    Raises:
        PackagesError: the build failed, with uv's message, or reached a bound.
        OSError: the disk is full, or the folder cannot be written.
    """
    remove(place)
    try:
        return _built(uv, settings, lock, place, log)
    except BaseException:
        remove(place)
        raise


def _built(
    uv: Uv, settings: PackageSettings, lock: Lock, place: Path, log: Callable[[str], None] | None
) -> BuiltPackages:
    scratch = place / "building"
    scratch.mkdir(parents=True)
    target = scratch / "files"
    uv.run(
        (*_COMMAND, "--target", str(target)),
        text=lock.text,
        own=scratch,
        seconds=settings.build_seconds,
        most_bytes=settings.unpacked_mb * MEBIBYTE,
        log=log,
    )
    target.mkdir(exist_ok=True)
    # A new name each time: a sandbox that was started before a removal still has the former folder.
    folder = place / f"files-{secrets.token_hex(4)}"
    target.rename(folder)
    remove(scratch)
    files, size = _measured(folder)
    built = BuiltPackages(folder, tuple(sorted(set(_modules(folder)))), files, size)
    _make_read_only(folder)
    _write_record(place, built)
    return built


def find(place: Path) -> BuiltPackages | None:
    """Returns the packages built below `place` if complete: a machine that lost power may have lost files."""
    try:
        record = json.loads((place / _RECORD).read_text())
        found = BuiltPackages(place / record["folder"], tuple(record["modules"]), record["files"], record["size"])
        return found if _measured(found.folder) == (found.files, found.size) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _modules(folder: Path) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            name = entry.name if entry.is_dir() else entry.name.partition(".")[0]
            holds = entry.name not in _NO_MODULES if entry.is_dir() else entry.name.endswith(_MODULE_ENDS)
            if holds and name.isidentifier():
                yield name


def _measured(folder: Path) -> tuple[int, int]:
    """Returns the number of files below a folder, and their bytes."""
    files = size = 0
    for parent, _, names in os.walk(folder, onerror=_raise):
        for name in names:
            files += 1
            size += os.lstat(f"{parent}/{name}").st_size
    return files, size


def _raise(error: OSError) -> None:
    raise error


def _make_read_only(folder: Path) -> None:
    for parent, _, names in os.walk(folder, topdown=False):
        for name in names:
            path = Path(parent, name)
            if not path.is_symlink():
                path.chmod(0o555 if path.stat().st_mode & 0o100 else 0o444)
        Path(parent).chmod(0o555)


def _write_record(place: Path, built: BuiltPackages) -> None:
    written = place / f"{_RECORD}.new"
    written.write_text(json.dumps({**asdict(built), "folder": built.folder.name}))
    written.replace(place / _RECORD)
