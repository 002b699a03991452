"""Tables of promoted outputs and of the objects that hold their bytes."""

from typing import NamedTuple

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Table, Text, UniqueConstraint

from backend.storage.tables.metadata import METADATA
from backend.storage.tables.runs import runs

outputs = Table(
    "outputs",
    METADATA,
    Column("output_id", Text, primary_key=True),
    Column("run_id", Text, ForeignKey(runs.c.run_id, ondelete="CASCADE"), nullable=False),
    Column("path", Text, nullable=False),
    # Null for `result.json`.
    Column("step", Text),
    Column("media_type", Text, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("sha256", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    # Name of the stored object, below the run's own prefix.
    Column("object_key", Text, nullable=False),
    # Null for outputs of earlier releases, until their first zip.
    Column("crc32", BigInteger),
    UniqueConstraint("run_id", "path"),
)


class OutputRow(NamedTuple):
    """An output of a run."""

    output_id: str
    run_id: str
    path: str
    step: str | None
    media_type: str
    size_bytes: int
    sha256: str
    created_at: int
    object_key: str
    crc32: int | None


# Single objects to be removed: written with the change after which no row names them, or before they are stored and
# named.
pending_deletions = Table(
    "pending_deletions",
    METADATA,
    Column("object_key", Text, primary_key=True),
)

# Runs whose objects are to be removed: written with the erasure, so that a crash leaves none behind.
pending_removals = Table(
    "pending_removals",
    METADATA,
    Column("run_id", Text, primary_key=True),
    Column("requested_at", BigInteger, nullable=False),
    Index(None, "requested_at"),
)


class RemovalRow(NamedTuple):
    """A run whose objects still have to be removed."""

    run_id: str
    requested_at: int
