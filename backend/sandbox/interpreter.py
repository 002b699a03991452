"""The interpreter that runs steps, and which of the host's files it needs."""

import sys
from pathlib import Path

from backend.sandbox.layer import SandboxUnavailableError

BASE = Path(sys.base_prefix).resolve()
FLAGS = ("-I", "-S", "-X", "utf8")
"""Isolated, without site packages, UTF-8 whatever the locale."""


def executable() -> Path:
    """The interpreter below the service's virtual environment: that one's own packages are not in its reach."""
    path = BASE / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    if not path.exists():
        raise SandboxUnavailableError(f"there is no interpreter at {path}")
    return path.resolve()


def readable_folders() -> list[Path]:
    """What a step may read of the host: programs, shared libraries, time zones, the interpreter and its library."""
    folders = [Path("/usr") / name for name in ("bin", "lib", "lib32", "lib64", "libx32", "share/zoneinfo")]
    if Path("/usr") != BASE:
        folders += [BASE / name for name in ("lib", "lib64")]
    return [folder for folder in folders if folder.is_dir() and not folder.is_symlink()]


def hidden_folders() -> list[Path]:
    """Packages installed beside the standard library: they are the service's or the host's, not the step's."""
    return [
        packages
        for folder in readable_folders()
        for pattern in ("python3*/site-packages", "python3*/dist-packages")
        for packages in sorted(folder.glob(pattern))
        if packages.is_dir() and not packages.is_symlink()
    ]
