"""Bounds of a person's uploads, and the names that files may have."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from backend.common.clock import HOUR_MS
from redaction.safe_paths import safe_member

if TYPE_CHECKING:
    # Not imported by the program that expands zips, whose processes would take a second to import SQLAlchemy.
    from backend.storage.tables.files import UploadRow

PART_BYTES: Final = 1_048_576
"""Bytes of each part of a file; the last part may have fewer."""
MOST_FILE_BYTES: Final = 100_000_000
MOST_BYTES: Final = 500_000_000
"""Most bytes of an upload, and of an expanded zip."""
MOST_FILES: Final = 2_000
"""Most files of an upload, and members of a zip."""
MOST_BYTES_OF_PERSON: Final = 1_000_000_000
"""Most bytes of all uploads of a person that no run has taken."""
MOST_UPLOADS_OF_PERSON: Final = 50
"""Most uploads of a person, counting uploads with files that no run has taken."""
MOST_BEGUN_OF_PERSON: Final = 1_000
"""Most uploads of a person, counting also uploads without files."""
LASTS_MS: Final = HOUR_MS
"""Milliseconds after its last change for which an upload is stored."""
FOLDER: Final = "uploads"
"""The folder, below the inputs of a step, of uploaded files that are for no parameter."""

_MOST_RESERVED: Final = 1_000_000_000
_SCHEME: Final = "upload://"
_LONGEST_SHOWN: Final = 200


def reserved_bytes(disk_bytes: int) -> int:
    """Returns the bytes of a disk that uploads leave free for everything else."""
    return min(_MOST_RESERVED, disk_bytes // 10)


def value_of(upload_id: str, parameter: str) -> str:
    """Returns the value of an `s3_prefix` parameter whose files were uploaded."""
    return f"{_SCHEME}{upload_id}/{parameter}/"


def is_uploaded(value: object) -> bool:
    """Returns whether the value of a parameter refers to uploaded files."""
    return isinstance(value, str) and value.startswith(_SCHEME)


def is_open(upload: "UploadRow", owner: str, now: int) -> bool:
    """Returns whether this person may still change an upload, or start a run with it."""
    return upload.owner == owner and upload.run_id is None and upload.expires_at > now


def name_problem(name: str) -> str | None:
    """Returns the reason why a file cannot have this name, worded to follow the name; None if it can."""
    return "is not a plain file name" if "/" in name or safe_member(name) != name else None


def path_problem(paths: Iterable[str], taken: Iterable[str]) -> tuple[str, str] | None:
    """Returns the first path that occurs twice, or is both a file and a folder, with the problem; None if none does."""
    files = set(taken)
    folders = {folder for path in files for folder in _folders(path)}
    for path in paths:
        above = list(_folders(path))
        if path in files:
            return path, "is there twice"
        if path in folders or not files.isdisjoint(above):
            return path, "is both a file and a folder"
        files.add(path)
        folders.update(above)
    return None


def shown(name: str) -> str:
    """Returns a name in the form in which messages quote it."""
    return f"'{printable(name, _LONGEST_SHOWN)}'"


def printable(text: str, most: int) -> str:
    """Returns at most `most` characters of a text, with a sign in place of unprintable ones."""
    found = "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text[:most])
    return f"{found}…" if len(text) > most else found


def _folders(path: str) -> Iterable[str]:
    while path := path.rpartition("/")[0]:
        yield path
