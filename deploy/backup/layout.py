"""What a backup is: a tar with the database, objects by their keys, a list of digests, and a manifest as its end."""

import re
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

import orjson

from backend.storage.factory import DATABASE_FILE
from deploy.failures import CommandError

FORMAT: Final = 1
DATABASE: Final = DATABASE_FILE
OBJECTS: Final = "objects/"
DIGESTS: Final = "files.sha256"
"""In the form that `sha256sum --check` reads: every file that the backup consists of, but for this and the manifest."""
MANIFEST: Final = "manifest.json"
"""The last member: an archive without it is not whole."""

_OBJECT: Final = re.compile(r"objects/(runs|uploads)(/[a-z0-9_-]+)+")
_DIGEST_LINE: Final = re.compile(rf"([0-9a-f]{{64}})  ({re.escape(DATABASE)}|{_OBJECT.pattern})")


class BackupError(CommandError):
    """A backup cannot be made, or one cannot be restored; the message is one sentence that says why."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="backup_failed")


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a backup holds. `objects_store` is `s3` where objects are in a bucket, which the backup does not hold."""

    format: int
    release: str
    schema: str
    deployment_id: str
    taken_at: str
    """Time of the database's copy, ISO 8601 in UTC: everything acknowledged before it is in the backup."""
    objects_store: str
    objects: int
    object_bytes: int
    runs: int
    absent_objects: int
    """Objects that rows name and that were already lost or damaged in the deployment."""
    digests_sha256: str

    def to_json(self) -> bytes:
        """Returns the JSON object of the archive's last member."""
        return orjson.dumps(asdict(self), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def read_manifest(content: bytes) -> Manifest:
    """Reads a manifest.

    Raises:
        BackupError: the content is no manifest, or one in the format of a later release.
    """
    try:
        given: Any = orjson.loads(content)
        if given["format"] != FORMAT:
            raise BackupError(f"The backup has the form {given['format']}, which this release does not know.")
        return Manifest(**{field.name: field.type(given[field.name]) for field in fields(Manifest)})  # type: ignore[operator]  # all are str or int
    except (KeyError, TypeError, ValueError) as error:
        raise BackupError(f"The manifest of the backup is damaged: {type(error).__name__}.") from None


def is_object(name: str) -> bool:
    """Returns whether a member's name is that of an object; no such name leads out of a folder."""
    return _OBJECT.fullmatch(name) is not None


def digest_line(digest: str, name: str) -> bytes:
    """Returns one line of the list of digests."""
    return f"{digest}  {name}\n".encode()


def read_digest_line(line: bytes) -> tuple[str, str]:
    """Returns digest and name of a line.

    Raises:
        BackupError: the line has another form.
    """
    found = _DIGEST_LINE.fullmatch(line.decode("ascii", "replace").removesuffix("\n"))
    if found is None:
        raise BackupError("The list of digests in the backup is damaged.")
    return found[1], found[2]
