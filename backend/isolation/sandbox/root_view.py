"""Parts of a root that steps see, and their paths on the host, which never lead out of the root."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

FOLDERS: Final = ("usr", "opt")
ALIASES: Final = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
"""Folders, or links into `usr` where the distribution has merged them."""
DETAILS: Final = (
    "etc/ImageMagick-6",
    "etc/ImageMagick-7",
    "etc/alternatives",
    "etc/fonts",
    "etc/ghostscript",
    "etc/ld.so.cache",
    "etc/magic",
    "etc/mime.types",
    "var/cache/fontconfig",
    "var/lib/ghostscript",
)
"""Settings and data that programs need at fixed paths."""
PARTS: Final = (*FOLDERS, *ALIASES, *DETAILS)
"""All paths of a root that are kept of an image; nothing else of it is stored."""
_MOST_LINKS: Final = 40


def resolved(root: Path, path: str) -> Path:
    """Returns the path on the host of a path of the root, with links followed as if the root were `/`.

    What does not exist is not followed. Nobody else may change the root meanwhile.

    Raises:
        OSError: there are too many links.
    """
    waiting = list(reversed(_names(path)))
    done: list[str] = []
    links = 0
    while waiting:
        name = waiting.pop()
        if name == "..":
            del done[-1:]
            continue
        place = root.joinpath(*done, name)
        if not place.is_symlink():
            done.append(name)
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        target = os.readlink(place)  # noqa: PTH115 - the text as it is
        if target.startswith("/"):
            done.clear()
        waiting += reversed(_names(target))
    return root.joinpath(*done)


def shown(root: Path) -> Iterator[tuple[Path, str]]:
    """Yields the folders and files of a root that steps see, each with its path inside the sandbox."""
    for part in PARTS:
        place = root / part
        if part in ALIASES and place.is_symlink():
            continue
        source = resolved(root, part)
        if source.is_dir() or source.is_file():
            yield source, f"/{part}"


def aliases(root: Path) -> Iterator[tuple[str, str]]:
    """Yields the links of a root that stand for folders of programs and libraries, each with its target."""
    for part in ALIASES:
        if (root / part).is_symlink():
            yield str((root / part).readlink()), f"/{part}"


def _names(path: str) -> list[str]:
    return [name for name in PurePosixPath(path).parts if name not in {"/", "//", "."}]
