"""SQL of uploads and their files."""

from typing import Final, NamedTuple

from sqlalchemy import (
    BigInteger,
    BindParameter,
    ColumnClause,
    Integer,
    bindparam,
    cast,
    delete,
    func,
    insert,
    literal_column,
    select,
    update,
)

from backend.common.clock import DAY_MS
from backend.storage.database import Tx
from backend.storage.sql_expressions import is_due
from backend.storage.statements import Command, Query, ScalarQuery, select_row
from backend.storage.tables.files import UploadFileRow, UploadRow, upload_files, uploads


class StagedRow(NamedTuple):
    """Totals of a person's uploads that no run has taken; `uploads` counts uploads with files that were not refused."""

    begun: int
    uploads: int
    bytes: int


_ID: BindParameter[str] = bindparam("of_upload_id")
_NUMBER: BindParameter[int] = bindparam("of_number")
_RUN: BindParameter[str] = bindparam("of_run_id")
_UNUSED: Final = uploads.c.run_id.is_(None)
_OF_FILE: Final = (upload_files.c.upload_id == _ID, upload_files.c.number == _NUMBER)
_ZERO: Final[ColumnClause[int]] = literal_column("0", Integer)

_ADD = Command(insert(uploads), uploads.columns.keys())
_FIND = Query(UploadRow, select_row(UploadRow, uploads).where(uploads.c.upload_id == _ID))
_OF_RUN = ScalarQuery[str](select(uploads.c.upload_id).where(uploads.c.run_id == _RUN))
_EXTEND = Command(
    update(uploads).where(uploads.c.upload_id == _ID, _UNUSED).values(expires_at=bindparam("new_expires_at"))
)
_TAKE = Command(
    update(uploads)
    .where(
        uploads.c.upload_id == _ID, _UNUSED, uploads.c.owner == bindparam("by"), uploads.c.expires_at > bindparam("now")
    )
    .values(run_id=bindparam("new_run_id"))
)
_STAGED = Query(
    StagedRow,
    select(
        func.count(uploads.c.upload_id.distinct()).label("begun"),
        func.count(upload_files.c.upload_id.distinct()).label("uploads"),
        cast(func.coalesce(func.sum(upload_files.c.stored_bytes), _ZERO), BigInteger).label("bytes"),
    )
    .select_from(uploads.outerjoin(upload_files, upload_files.c.upload_id == uploads.c.upload_id))
    .where(uploads.c.owner == bindparam("by"), _UNUSED),
)
_FILES = Query(
    UploadFileRow,
    select_row(UploadFileRow, upload_files)
    .where(upload_files.c.upload_id == _ID)
    .order_by(upload_files.c.name, upload_files.c.number),
)
_FILE = Query(UploadFileRow, select_row(UploadFileRow, upload_files).where(*_OF_FILE))
_STORED = ScalarQuery[int](
    select(cast(func.coalesce(func.sum(upload_files.c.stored_bytes), _ZERO), BigInteger)).where(
        upload_files.c.upload_id == _ID
    )
)
_ADD_FILE = Command(insert(upload_files), upload_files.columns.keys())
_CHANGE_FILE = Command(
    update(upload_files)
    .where(*_OF_FILE)
    .values({name: bindparam(f"new_{name}") for name in ("size_bytes", "stored_bytes", "finished", "members")})
)
_REMOVE_FILE = Command(delete(upload_files).where(*_OF_FILE))
_REMOVE_FILES_OF_RUN = Command(
    delete(upload_files).where(
        upload_files.c.upload_id.in_(select(uploads.c.upload_id).where(uploads.c.run_id == _RUN))
    )
)
_RELEASE = Command(update(uploads).where(uploads.c.run_id == _RUN).values(run_id=None, expires_at=_ZERO))
_NOW: BindParameter[int] = bindparam("now")
# Counts a time more than a day ahead as over: a clock that was ahead set it. A smaller step ends no upload.
_IS_OVER: Final = is_due(uploads.c.expires_at, _NOW, DAY_MS)
_EXPIRED = ScalarQuery[str](select(uploads.c.upload_id).where(_IS_OVER, _UNUSED).limit(bindparam("most")))
_EXPIRE = Command(update(uploads).where(uploads.c.upload_id == _ID, _UNUSED, _IS_OVER).values(expires_at=_ZERO))
_REMOVE = Command(delete(uploads).where(uploads.c.upload_id == _ID, _UNUSED))


def lock_key(owner: str) -> str:
    """Returns the lock key of changes of a person's uploads."""
    return f"uploads of {owner}"


def add(tx: Tx, row: UploadRow) -> None:
    """Writes a new upload."""
    tx.enqueue(_ADD, **row._asdict())


def find(tx: Tx, upload_id: str) -> UploadRow | None:
    """Returns an upload, or None."""
    return tx.first(_FIND, of_upload_id=upload_id)


def of_run(tx: Tx, run_id: str) -> str | None:
    """Returns the upload that a run has taken, or None."""
    return tx.scalar(_OF_RUN, of_run_id=run_id)


def extend(tx: Tx, upload_id: str, expires_at: int) -> None:
    """Sets the time until which an upload that no run has taken is stored."""
    tx.enqueue(_EXTEND, of_upload_id=upload_id, new_expires_at=expires_at)


def take(tx: Tx, upload_id: str, run_id: str, *, owner: str, now: int) -> bool:
    """Gives an upload of this person to a run; returns whether it could still be taken."""
    return tx.run(_TAKE, of_upload_id=upload_id, by=owner, now=now, new_run_id=run_id) == 1


def staged(tx: Tx, owner: str) -> StagedRow:
    """Returns the totals of a person's uploads that no run has taken."""
    return tx.one(_STAGED, by=owner)


def files(tx: Tx, upload_id: str) -> list[UploadFileRow]:
    """Returns the files of an upload by name, incomplete ones included."""
    return tx.all(_FILES, of_upload_id=upload_id)


def file(tx: Tx, upload_id: str, number: int) -> UploadFileRow | None:
    """Returns a file, or None."""
    return tx.first(_FILE, of_upload_id=upload_id, of_number=number)


def stored_bytes(tx: Tx, upload_id: str) -> int:
    """Returns the stored bytes of the files of an upload."""
    return tx.scalar_one(_STORED, of_upload_id=upload_id)


def add_file(tx: Tx, row: UploadFileRow) -> None:
    """Writes a new file."""
    tx.enqueue(_ADD_FILE, **row._asdict())


def change_file(tx: Tx, row: UploadFileRow) -> None:
    """Writes the size of a file so far, whether it is complete, and the members of a zip."""
    changed = {f"new_{name}": getattr(row, name) for name in ("size_bytes", "stored_bytes", "finished", "members")}
    tx.enqueue(_CHANGE_FILE, of_upload_id=row.upload_id, of_number=row.number, **changed)


def remove_file(tx: Tx, upload_id: str, number: int) -> None:
    """Removes a file."""
    tx.enqueue(_REMOVE_FILE, of_upload_id=upload_id, of_number=number)


def release(tx: Tx, run_id: str) -> None:
    """Makes the upload of an erased run due for removal, and removes its names at once."""
    tx.enqueue(_REMOVE_FILES_OF_RUN, of_run_id=run_id)
    tx.enqueue(_RELEASE, of_run_id=run_id)


def expired(tx: Tx, now: int, most: int) -> list[str]:
    """Returns up to `most` expired uploads."""
    return tx.scalars(_EXPIRED, now=now, most=most)


def expire(tx: Tx, upload_id: str, now: int) -> bool:
    """Closes an expired upload to starts and changes; returns False if it was extended meanwhile."""
    return tx.run(_EXPIRE, of_upload_id=upload_id, now=now) == 1


def remove(tx: Tx, upload_id: str) -> None:
    """Removes an upload with its files."""
    tx.enqueue(_REMOVE, of_upload_id=upload_id)
