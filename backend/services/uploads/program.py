"""Program of the confined processes that expand zips; see `backend.isolation.confined`."""

import errno
import os
import stat
import zipfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO, Final

from backend.services.uploads.rules import path_problem, shown
from redaction.safe_paths import safe_member

_CHUNK: Final = 256 * 1024
_ENCRYPTED: Final = 0x1
_UNIX: Final = 3
# Most bytes of the record at a zip's end with its comment, and of the list of members.
_LONGEST_END: Final = 65_557 + 20
_LONGEST_DIRECTORY: Final = 8_000_000
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class _RefusedError(Exception):
    """The zip is refused; the text completes "the zip …"."""


def expand(arguments: Mapping[str, Any], descriptors: Sequence[int]) -> dict[str, Any]:
    """Writes the contents of the zip at the first descriptor to the second, one member after the other.

    `arguments` has `most_members` and `most_bytes`, and as `bound` the text that names the latter. Returns `members`,
    pairs of path and size in the order of the contents, or `problem`, the reason why the zip is refused.
    """
    try:
        with os.fdopen(os.dup(descriptors[0]), "rb") as source, os.fdopen(os.dup(descriptors[1]), "wb") as target:
            return {"members": _expand(source, target, arguments)}
    except _RefusedError as error:
        return {"problem": str(error)}


def _expand(source: BinaryIO, target: BinaryIO, bounds: Mapping[str, Any]) -> list[tuple[str, int]]:
    most_members: int = bounds["most_members"]
    _check_directory(source, most_members)
    try:
        archive = zipfile.ZipFile(source)
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError) as error:
        raise _RefusedError(f"cannot be read: {type(error).__name__}") from error
    with archive:
        members = archive.infolist()
        if len(members) > most_members:
            raise _RefusedError(f"has more than {most_members:,} entries")
        files = [(member, path) for member in members if (path := _path(member)) is not None]
        problem = path_problem([path for _, path in files], ())
        if problem is not None:
            raise _RefusedError(f"has an entry {shown(problem[0])} that {problem[1]}")
        if sum(member.file_size for member, _ in files) > bounds["most_bytes"]:
            raise _RefusedError(f"expands to more than {bounds['bound']}")
        return [(path, _copy(archive, member, target)) for member, path in files]


def _check_directory(source: BinaryIO, most_members: int) -> None:
    """Refuses a zip whose list of members would fill the memory, before reading the list."""
    size = source.seek(0, os.SEEK_END)
    source.seek(max(0, size - _LONGEST_END))
    end = source.read()
    source.seek(0)
    place = end.rfind(b"PK\x05\x06")
    if place < 0:
        raise _RefusedError("cannot be read: it has no list of its entries, or is cut off")
    large = b"PK\x06\x07" in end[max(0, place - 20) : place]
    if large or int.from_bytes(end[place + 12 : place + 16], "little") > _LONGEST_DIRECTORY:
        raise _RefusedError(f"has more than {most_members:,} entries, or is of the form for more than 65,535")


def _path(member: zipfile.ZipInfo) -> str | None:
    """Returns the path of a member; None for a folder.

    Raises:
        _RefusedError: the member is neither file nor folder, is encrypted, or its path leads out of the folder.
    """
    name = member.orig_filename
    entry = f"has an entry {shown(name)} that"
    if member.flag_bits & _ENCRYPTED:
        raise _RefusedError(f"{entry} is encrypted")
    kind = stat.S_IFMT(member.external_attr >> 16) if member.create_system == _UNIX else 0
    if stat.S_ISLNK(kind):
        raise _RefusedError(f"{entry} is a symbolic link")
    if kind and not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):
        raise _RefusedError(f"{entry} is no file and no folder")
    if name.startswith("/") or "\\" in name or name[1:2] == ":" or ".." in name.split("/"):
        raise _RefusedError(f"{entry} leads out of the zip's own folder")
    path = safe_member(name)
    if "\0" in name or path is None:
        raise _RefusedError(f"{entry} has no usable name")
    return None if member.is_dir() else path


def _copy(archive: zipfile.ZipFile, member: zipfile.ZipInfo, target: BinaryIO) -> int:
    """Copies the content of a member and returns its size, which must be the size stated in the zip."""
    size = 0
    try:
        with archive.open(member) as content:
            while block := content.read(_CHUNK):
                size += len(block)
                if size > member.file_size:
                    break
                target.write(block)
    except MemoryError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _FULL:
            raise _RefusedError("does not fit on the service's disk when it is expanded") from error
        # Offsets stated in the zip may lead outside of it.
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise
        # The libraries raise unrelated errors for a malformed zip.
        why = str(error) if isinstance(error, zipfile.BadZipFile | NotImplementedError) else type(error).__name__
        entry = shown(member.filename)
        raise _RefusedError(f"has an entry {entry} that cannot be read: {shown(why)[1:-1]}") from error
    if size != member.file_size:
        raise _RefusedError(f"has an entry {shown(member.filename)} whose size is not the one that the zip states")
    return size


OPERATIONS: Final[Mapping[str, Callable[[Mapping[str, Any], Sequence[int]], Any]]] = {"expand": expand}
