"""SQL of the folders with the code of agents, each stored once by its digest."""

from typing import NamedTuple

from sqlalchemy import bindparam, delete, exists, insert, literal_column, select, update

from backend.storage.database import Tx
from backend.storage.statements import Command, Query, ScalarQuery
from backend.storage.tables.workflows import (
    agent_sources,
    resource_versions,
    resources,
    workflow_version_resources,
)


class SourceRow(NamedTuple):
    """A stored folder, by its digest, and when it was last applied."""

    digest: str
    applied_at: int


_ARCHIVE = ScalarQuery[bytes](select(agent_sources.c.archive).where(agent_sources.c.digest == bindparam("digest")))
_ADD = Command(insert(agent_sources), [column.name for column in agent_sources.columns])
_TOUCH = Command(
    update(agent_sources)
    .where(agent_sources.c.digest == bindparam("of_digest"))
    .values(applied_at=bindparam("new_applied_at"))
)
_REMOVE = Command(
    delete(agent_sources).where(
        agent_sources.c.digest == bindparam("of_digest"), agent_sources.c.applied_at == bindparam("seen_applied_at")
    )
)
_BEFORE = Query(
    SourceRow,
    select(agent_sources.c.digest, agent_sources.c.applied_at)
    .where(agent_sources.c.applied_at < bindparam("before"))
    .order_by(agent_sources.c.applied_at)
    .limit(bindparam("limit")),
)
_NEWEST = exists().where(
    resources.c.resource_id == resource_versions.c.resource_id, resources.c.version == resource_versions.c.version
)
_PINNED = exists().where(
    workflow_version_resources.c.resource_id == resource_versions.c.resource_id,
    workflow_version_resources.c.resource_version == resource_versions.c.version,
)
_NEEDED = ScalarQuery[int](
    select(literal_column("1"))
    .select_from(resource_versions)
    .where(resource_versions.c.source_digest == bindparam("digest"), _NEWEST | _PINNED)
    .limit(literal_column("1"))
)


def archive(tx: Tx, digest: str) -> bytes | None:
    """Returns the stored folder as a zip, or None."""
    return tx.scalar(_ARCHIVE, digest=digest)


def is_stored(tx: Tx, digest: str, now: int) -> bool:
    """Returns whether a folder is stored, and notes that it was applied."""
    return bool(tx.run(_TOUCH, of_digest=digest, new_applied_at=now))


def store(tx: Tx, digest: str, content: bytes, now: int) -> None:
    """Writes a folder that is not stored."""
    tx.enqueue(_ADD, digest=digest, archive=content, applied_at=now)


def delete_unneeded(tx: Tx, before: int, limit: int) -> int:
    """Deletes folders last applied before a time that no version needs; looks at `limit`, and returns how many.

    Needed are the newest version of every agent, and those that versions of workflows use. A folder that is needed
    counts as applied at `before`, so that the next call looks at others.
    """
    deleted = 0
    for row in tx.all(_BEFORE, before=before, limit=limit):
        if tx.exists(_NEEDED, digest=row.digest):
            tx.enqueue(_TOUCH, of_digest=row.digest, new_applied_at=before)
        else:
            # One that was applied since this looked stays: applying it again would not store it anew.
            deleted += tx.run(_REMOVE, of_digest=row.digest, seen_applied_at=row.applied_at)
    return deleted
