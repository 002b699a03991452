"""Tables of files: uploads that people give runs, outputs that steps leave, and objects that are to be removed."""

from typing import Final, NamedTuple

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    ForeignKey,
    Index,
    Integer,
    Table,
    Text,
    UniqueConstraint,
    literal_column,
)

from backend.storage.tables.metadata import METADATA, partial_index
from backend.storage.tables.runs import runs

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


# Files that only later steps of the run see; rows and objects go once the run has ended.
shared_files = Table(
    "shared_files",
    METADATA,
    # Name of the stored object, below the prefix of the run's shared files.
    Column("object_key", Text, primary_key=True),
    Column("run_id", Text, ForeignKey(runs.c.run_id, ondelete="CASCADE"), nullable=False),
    Column("path", Text, nullable=False),
    Column("step", Text, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Index(None, "run_id"),
)


class SharedFileRow(NamedTuple):
    """A file that a step left for later steps alone."""

    object_key: str
    run_id: str
    path: str
    step: str
    size_bytes: int


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


OPEN_STATES: Final = ("pending", "landed", "removing")
"""States of publications that the publisher still has to process."""

# No foreign key to the run: a requested removal outlives it.
publications = Table(
    "publications",
    METADATA,
    Column("run_id", Text, primary_key=True),
    Column("graph_id", Text, primary_key=True),
    # The version of the knowledge graph's manifest that it goes to.
    Column("graph_version", Integer, nullable=False),
    # The entry of the workflow's `publish`, as JSON.
    Column("entry", Text, nullable=False),
    # `pending`; `landed` while its run goes on, then `kept`; `failed`; `removing`.
    Column("state", Text, nullable=False),
    Column("requested_at", BigInteger, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("next_attempt_at", BigInteger, nullable=False),
    # The publisher that alone may change the named graph, until then unless it renews its claim.
    Column("claimed_by", Text),
    Column("claimed_until", BigInteger),
    partial_index(
        "ix_publications_open",
        "next_attempt_at",
        where=f"state IN {OPEN_STATES}",
    ),
    Index(None, "graph_id"),
    # For the newest of a graph.
    Index("ix_publications_graph_id_requested_at", "graph_id", "requested_at"),
)


def state_in(*states: str) -> ColumnElement[bool]:
    """Returns a condition on `publications` with the states in its text; a partial index serves `OPEN_STATES`."""
    return publications.c.state.in_([literal_column(f"'{state}'") for state in states])
