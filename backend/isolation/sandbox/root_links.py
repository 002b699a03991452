"""Links into a root for steps of layers that mount nothing, where the machine's own /usr stays in its place.

Programs of the root then run with the machine's C library and loader, which must not be older than those of the root.
"""

import os
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from backend.isolation.sandbox.host_libraries import glibc_version, host_libraries, parsed_version
from backend.isolation.sandbox.layer import SandboxUnavailableError
from backend.isolation.sandbox.limits import StepRoot
from backend.isolation.sandbox.root_view import resolved

_PROGRAMS: Final = tuple(f"{parent}{name}" for parent in ("usr/local/", "usr/", "") for name in ("bin", "sbin"))
_LIBRARIES: Final = ("usr/local/lib", "usr/lib", "lib", "usr/lib64", "lib64")
_LIBRARY: Final = re.compile(r".+\.so(\.[0-9][^/]*)?")
_OF_GLIBC: Final = re.compile(
    r"(ld-|ld\.|lib(c|m|mvec|dl|rt|util|pthread|resolv|anl|nsl|thread_db|BrokenLocale|c_malloc_debug|memusage|pcprofile"
    r"|SegFault|nss_[a-z]+)[-.]).*"
)
"""Libraries that fit one version of glibc's loader only, and the loader is the machine's."""
_DATA: Final = {
    "TESSDATA_PREFIX": ("usr/share/tesseract-ocr/*/tessdata", "usr/share/tessdata"),
    "GS_LIB": (
        "usr/share/ghostscript/*/Resource/Init",
        "usr/share/ghostscript/*/lib",
        "usr/share/ghostscript/*/iccprofiles",
    ),
    "MAGICK_CONFIGURE_PATH": ("etc/ImageMagick-*",),
}
"""Variables of programs that look for their data at a fixed path, with the folders that they name."""
_FONT_SETTINGS: Final = "fonts.conf"
_MOST_FONT_RULES: Final = 200
_LARGEST_FONT_RULE: Final = 64 * 1024
_ALL_FOLDERS: Final = frozenset({"GS_LIB", "MAGICK_CONFIGURE_PATH"})


def make_links(root: Path, folder: Path, links: Path) -> None:
    """Writes the links of a root into an empty folder, which becomes `links`.

    Raises:
        OSError: the links cannot be written.
        SandboxUnavailableError: see `host_libraries`.
    """
    own = host_libraries().libraries
    found = {
        "programs": _programs(root),
        "libraries": ((name, file) for name, file in _libraries(root) if name not in own),
        "fonts": islice(_font_rules(root), _MOST_FONT_RULES),
    }
    for name, files in found.items():
        (folder / name).mkdir()
        _link(folder / name, files)
        # A step may have a user of its own, and the service lets no other user read its files.
        (folder / name).chmod(0o755)
    fonts = folder / _FONT_SETTINGS
    fonts.write_text(_font_settings(root, links / "fonts"), encoding="utf-8")
    fonts.chmod(0o644)


def variables_of(root: StepRoot) -> dict[str, str]:
    """Returns the variables by which programs find the files of a root that is not mounted.

    Raises:
        SandboxUnavailableError: programs of the root cannot run with the machine's C library.
    """
    _check_c_library(root)
    found = {
        "PATH": f"{root.links}/programs:/usr/bin:/bin",
        "LD_LIBRARY_PATH": f"{root.links}/libraries",
        "FONTCONFIG_FILE": f"{root.links}/{_FONT_SETTINGS}",
        "XDG_DATA_DIRS": f"{root.folder}/usr/local/share:{root.folder}/usr/share",
    }
    for name, patterns in _DATA.items():
        folders = [
            str(folder) for pattern in patterns for folder in sorted(root.folder.glob(pattern)) if folder.is_dir()
        ]
        if folders:
            found[name] = ":".join(folders) if name in _ALL_FOLDERS else folders[0]
    return found


def _check_c_library(root: StepRoot) -> None:
    name, _, version = root.c_library.partition(" ")
    if not name:
        return
    own, wanted = glibc_version(), parsed_version(version)
    has = "not glibc" if own is None else f"glibc {own[0]}.{own[1]}"
    if name != "glibc" or own is None or wanted is None or own < wanted:
        raise SandboxUnavailableError(
            f"its programs are for {root.c_library}, and in this sandbox layer they run with the machine's C library, "
            f"which is {has}: use bubblewrap, or a root that is not newer than the machine"
        )


def _programs(root: Path) -> Iterator[tuple[str, Path]]:
    for part in _PROGRAMS:
        folder = resolved(root, part)
        if folder.is_dir():
            yield from ((name, file) for name, file in _files_of(root, folder) if os.access(file, os.X_OK))


def _libraries(root: Path) -> Iterator[tuple[str, Path]]:
    for part in _LIBRARIES:
        folder = resolved(root, part)
        if not folder.is_dir():
            continue
        # Debian and its descendants have a folder for each kind of processor.
        for each in (
            folder,
            *sorted(path for path in folder.glob("*-linux-*") if path.is_dir() and not path.is_symlink()),
        ):
            for name, file in _files_of(root, each):
                if _LIBRARY.fullmatch(name) and not _OF_GLIBC.fullmatch(name):
                    yield name, file


def _font_rules(root: Path) -> Iterator[tuple[str, Path]]:
    folder = resolved(root, "etc/fonts/conf.d")
    for name, file in _files_of(root, folder) if folder.is_dir() else ():
        if name.endswith(".conf") and name != _FONT_SETTINGS and file.stat().st_size <= _LARGEST_FONT_RULE:
            yield name, file


def _files_of(root: Path, folder: Path) -> Iterator[tuple[str, Path]]:
    """Yields the files of a folder of the root by name, with links followed inside the root."""
    for name in sorted(path.name for path in folder.iterdir()):
        try:
            file = resolved(root, str(folder.relative_to(root) / name))
        except OSError:
            continue
        if file.is_file():
            yield name, file


def _link(folder: Path, files: Iterable[tuple[str, Path]]) -> None:
    seen: set[str] = set()
    for name, file in files:
        if name not in seen:
            seen.add(name)
            (folder / name).symlink_to(file)


def _font_settings(root: Path, rules: Path) -> str:
    """Returns settings of fontconfig for the fonts of a root: its own settings name them by their path in the root."""
    folders = [f"{root}/usr/share/fonts", f"{root}/usr/local/share/fonts"]
    listed = "".join(f"<dir>{escape(folder)}</dir>" for folder in folders)
    included = f'<include ignore_missing="yes">{escape(str(rules))}</include>'
    caches = '<cachedir prefix="xdg">fontconfig</cachedir>'
    return f'<?xml version="1.0"?>\n<fontconfig>{listed}{caches}{included}</fontconfig>\n'
