"""Interpreter of steps, and the files of the host that it needs."""

import sys
from pathlib import Path

from backend.sandbox.layer import SandboxUnavailableError

BASE = Path(sys.base_prefix).resolve()
FLAGS = ("-I", "-S", "-X", "utf8")
"""Isolated, without site packages, and UTF-8 in every locale."""


def executable() -> Path:
    """Returns the interpreter outside of the service's virtual environment, whose packages it cannot import."""
    path = BASE / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    if not path.exists():
        raise SandboxUnavailableError(f"there is no interpreter at {path}")
    return path.resolve()


def readable_folders() -> list[Path]:
    """Returns the folders of the host that a step may read: programs, libraries, time zones and the interpreter."""
    folders = [Path("/usr") / name for name in ("bin", "lib", "lib32", "lib64", "libx32", "share/zoneinfo")]
    if Path("/usr") != BASE:
        folders += [BASE / name for name in ("lib", "lib64")]
    return [folder for folder in folders if folder.is_dir() and not folder.is_symlink()]


def hidden_folders() -> list[Path]:
    """Returns the folders of installed packages, which belong to the service or the host and not to the step."""
    return [
        packages
        for folder in readable_folders()
        for pattern in ("python3*/site-packages", "python3*/dist-packages")
        for packages in sorted(folder.glob(pattern))
        if packages.is_dir() and not packages.is_symlink()
    ]
