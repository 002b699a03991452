"""Tables of the files that people give runs."""

from typing import NamedTuple

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, Table, Text

from backend.storage.tables.metadata import METADATA, partial_index

uploads = Table(
    "uploads",
    METADATA,
    Column("upload_id", Text, primary_key=True),
    # The person, as the audit names them.
    Column("owner", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    # When it is removed unless a run has taken it; 0 once its run is erased.
    Column("expires_at", BigInteger, nullable=False),
    # Null until a run takes it.
    Column("run_id", Text),
    partial_index("ix_uploads_open", "owner", where="run_id IS NULL"),
    partial_index("ix_uploads_expiring", "expires_at", where="run_id IS NULL"),
    Index(None, "run_id"),
)


class UploadRow(NamedTuple):
    """An upload."""

    upload_id: str
    owner: str
    created_at: int
    expires_at: int
    run_id: str | None


upload_files = Table(
    "upload_files",
    METADATA,
    Column("upload_id", Text, ForeignKey(uploads.c.upload_id, ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("parameter", Text, nullable=False),
    Column("name", Text, nullable=False),
    # Bytes that have arrived.
    Column("size_bytes", BigInteger, nullable=False),
    # Bytes that it gives a run: of a zip, of its members.
    Column("stored_bytes", BigInteger, nullable=False),
    # 1 once all of it has arrived and was found good.
    Column("finished", Integer, nullable=False),
    # The members of a zip as a JSON list of path and size, in the order in which their bytes are stored.
    Column("members", Text),
)


class UploadFileRow(NamedTuple):
    """A file of an upload."""

    upload_id: str
    number: int
    parameter: str
    name: str
    size_bytes: int
    stored_bytes: int
    finished: int
    members: str | None
