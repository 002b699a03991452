"""Shared libraries of the machine's interpreter, which it takes along where a root replaces those of the machine."""

import os
import re
import struct
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from backend.isolation.sandbox import interpreter
from backend.isolation.sandbox.layer import SandboxUnavailableError, require

_OLDEST_GLIBC: Final = (2, 34)
"""The first that looks up users and machines in files without a library of its own, which it would load from a root.

Its loader also has `--argv0`, by which an interpreter under another loader knows its own path.
"""
_LOADED_LATER: Final = ("libgcc_s.so.1", "libstdc++.so.6")
"""Libraries that glibc loads when a thread ends, and that wheels expect of every machine."""
_LISTED: Final = re.compile(r"^\s*(?:(\S+) => )?(/\S+) \(0x[0-9a-f]+\)$", re.MULTILINE)
_LIST_SECONDS: Final = 10
_PT_INTERP: Final = 3


@dataclass(frozen=True)
class HostLibraries:
    """The loader of the interpreter, and each library that it or a program of `PROGRAMS` may load, by name."""

    loader: Path
    libraries: dict[str, Path]
    programs: dict[str, Path]


PROGRAMS: Final = ("setpriv", "env")
"""Programs that start the interpreter as the step's user, before which nothing of a root may run."""


@cache
def host_libraries() -> HostLibraries:
    """Returns the libraries of this machine's interpreter and of its extension modules.

    Raises:
        SandboxUnavailableError: the interpreter has no loader of glibc, or one that is too old.
    """
    version = glibc_version()
    if version is None or version < _OLDEST_GLIBC:
        oldest = ".".join(map(str, _OLDEST_GLIBC))
        raise SandboxUnavailableError(f"environments with a root need glibc {oldest} or newer on the machine")
    python = interpreter.executable()
    loader = _loader_of(python)
    if loader is None:
        raise SandboxUnavailableError(
            f"{python} is not linked to shared libraries, which environments with a root need"
        )
    programs = {name: Path(require(name)) for name in PROGRAMS}
    modules = [module for folder in interpreter.modules() for module in sorted(folder.glob("lib-dynload/*.so"))]
    libraries = dict(_libraries(loader, (python, *modules, *programs.values())))
    for name in _LOADED_LATER:
        beside = next((found for path in libraries.values() if (found := path.parent / name).exists()), None)
        if beside is not None:
            libraries.setdefault(name, beside)
    return HostLibraries(loader, libraries, programs)


def glibc_version() -> tuple[int, int] | None:
    """Returns the version of this machine's glibc; None if it has another C library."""
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    except (ValueError, OSError):
        return None
    return parsed_version(version) if name == "glibc" else None


def parsed_version(text: str) -> tuple[int, int] | None:
    """Returns the first two numbers of a version as 2.36, or None."""
    found = re.match(r"(\d{1,4})\.(\d{1,4})", text)
    return None if found is None else (int(found[1]), int(found[2]))


def _loader_of(program: Path) -> Path | None:
    """Returns the loader that an executable of 64 bits names."""
    content = program.read_bytes()
    if content[:5] != b"\x7fELF\x02":
        return None
    offset, size, count = _program_headers(content)
    for number in range(count):
        kind, _, start, _, _, length = struct.unpack_from("=IIQQQQ", content, offset + number * size)
        if kind == _PT_INTERP:
            return Path(content[start : start + length].rstrip(b"\0").decode())
    return None


def _program_headers(content: bytes) -> tuple[int, int, int]:
    (offset,) = struct.unpack_from("=Q", content, 32)
    size, count = struct.unpack_from("=HH", content, 54)
    return offset, size, count


def _libraries(loader: Path, programs: Iterable[Path]) -> Iterator[tuple[str, Path]]:
    """Yields the libraries that the loader finds for programs and modules of this machine, by name."""
    for program in programs:
        listed = subprocess.run(
            [loader, "--list", program],
            env={"LC_ALL": "C"},
            capture_output=True,
            text=True,
            timeout=_LIST_SECONDS,
            check=False,
        )
        for name, path in _LISTED.findall(listed.stdout):
            yield name or Path(path).name, Path(path)
