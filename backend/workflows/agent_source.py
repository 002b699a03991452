"""Folders with the code of agents as stored archives."""

import io
import zipfile
from collections.abc import Mapping
from typing import Final

_TIME: Final = (1980, 1, 1, 0, 0, 0)


def archive_of(files: Mapping[str, bytes]) -> bytes:
    """Returns files by path as a zip."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for path, content in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(path, _TIME), content, zipfile.ZIP_DEFLATED, compresslevel=1)
    return target.getvalue()


def files_of(archive: bytes) -> dict[str, bytes]:
    """Returns the files of an archive by path."""
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        return {path: opened.read(path) for path in opened.namelist()}
