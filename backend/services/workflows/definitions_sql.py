"""SQL of definitions: their versions, the workflows that use them, and the code folders of agents.

A code folder is stored once, by its digest.
"""

from typing import Final, NamedTuple

from sqlalchemy import (
    BigInteger,
    Text,
    bindparam,
    cast,
    delete,
    exists,
    func,
    insert,
    literal_column,
    null,
    select,
    update,
)

from backend.storage.database import Tx
from backend.storage.sql_expressions import containing
from backend.storage.statements import Command, Query, ScalarQuery, select_row
from backend.storage.tables.workflows import (
    agent_sources,
    resource_versions,
    resources,
    workflow_version_resources,
    workflow_versions,
    workflows,
)


class VersionRow(NamedTuple):
    """A version with the time of its save."""

    version: int
    created_at: int


class UseRow(NamedTuple):
    """A workflow whose newest version uses a resource, with the pinned version; None for kinds that are not pinned."""

    workflow_id: str
    name: str
    workflow_version: int
    version: int | None


_BEFORE: Final = bindparam("before", type_=BigInteger)
_OF_WORKFLOW = Query(
    VersionRow,
    select_row(VersionRow, workflow_versions)
    .where(workflow_versions.c.workflow_id == bindparam("of"), workflow_versions.c.version < _BEFORE)
    .order_by(workflow_versions.c.version.desc())
    .limit(bindparam("limit")),
)
_OF_RESOURCE = Query(
    VersionRow,
    select_row(VersionRow, resource_versions)
    .where(resource_versions.c.resource_id == bindparam("of"), resource_versions.c.version < _BEFORE)
    .order_by(resource_versions.c.version.desc())
    .limit(bindparam("limit")),
)
# There are at most 256 workflows, each with few resources.
_USES = Query(
    UseRow,
    select(
        workflows.c.workflow_id,
        workflows.c.name,
        workflows.c.newest_version.label("workflow_version"),
        workflow_version_resources.c.resource_version.label("version"),
    )
    .join(
        workflow_version_resources,
        (workflow_version_resources.c.workflow_id == workflows.c.workflow_id)
        & (workflow_version_resources.c.version == workflows.c.newest_version),
    )
    .where(
        workflow_version_resources.c.resource_id == bindparam("of"),
        workflows.c.name > bindparam("after"),
        workflows.c.deleted_at.is_(None),
    )
    .order_by(workflows.c.name)
    .limit(bindparam("limit")),
)
# A version may share the definition of the version that `definition_version` names.
_SHARED: Final = workflow_versions.alias("shared")
_MENTIONING = Query(
    UseRow,
    select(
        workflows.c.workflow_id,
        workflows.c.name,
        workflows.c.newest_version.label("workflow_version"),
        cast(null(), BigInteger).label("version"),
    )
    .join(
        workflow_versions,
        (workflow_versions.c.workflow_id == workflows.c.workflow_id)
        & (workflow_versions.c.version == workflows.c.newest_version),
    )
    .join(
        _SHARED,
        (_SHARED.c.workflow_id == workflow_versions.c.workflow_id)
        & (_SHARED.c.version == func.coalesce(workflow_versions.c.definition_version, workflow_versions.c.version)),
    )
    .where(
        workflows.c.name > bindparam("after"),
        workflows.c.deleted_at.is_(None),
        _SHARED.c.definition.like(bindparam("pattern", type_=Text), escape="\\"),
    )
    .order_by(workflows.c.name),
)


def versions(tx: Tx, kind: str, definition_id: str, *, before: int, limit: int) -> list[VersionRow]:
    """Returns versions, below a number, of a workflow or resource, newest first."""
    query = _OF_WORKFLOW if kind == "Workflow" else _OF_RESOURCE
    return tx.all(query, of=definition_id, before=before, limit=limit)


def uses(tx: Tx, resource_id: str, *, after: str, limit: int) -> list[UseRow]:
    """Returns a page of workflows that use a resource, by name, after the name `after`."""
    return tx.all(_USES, of=resource_id, after=after, limit=limit)


def mentioning(tx: Tx, text: str, *, after: str) -> list[UseRow]:
    """Returns workflows, by name after `after`, whose newest definition contains a text anywhere."""
    return tx.all(_MENTIONING, pattern=containing(text), after=after)


class SourceRow(NamedTuple):
    """Digest of a stored code folder, and the time of its last apply."""

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
_APPLIED_BEFORE = Query(
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
    """Returns a stored code folder as a zip archive, or None."""
    return tx.scalar(_ARCHIVE, digest=digest)


def touch_stored(tx: Tx, digest: str, now: int) -> bool:
    """Sets the time of the last apply of a stored code folder; returns False if it is not stored."""
    return bool(tx.run(_TOUCH, of_digest=digest, new_applied_at=now))


def store(tx: Tx, digest: str, content: bytes, now: int) -> None:
    """Stores a code folder that is not stored yet."""
    tx.enqueue(_ADD, digest=digest, archive=content, applied_at=now)


def delete_unneeded(tx: Tx, before: int, limit: int) -> int:
    """Deletes unneeded code folders last applied before a time; examines `limit`, and returns how many were deleted.

    The newest version of every agent, and versions that workflow versions use, need their folders. A needed folder gets
    `before` as its apply time, so that the next call examines others.
    """
    deleted = 0
    for row in tx.all(_APPLIED_BEFORE, before=before, limit=limit):
        if tx.exists(_NEEDED, digest=row.digest):
            tx.enqueue(_TOUCH, of_digest=row.digest, new_applied_at=before)
        else:
            # A folder that was applied meanwhile stays, because its apply did not store it again.
            deleted += tx.run(_REMOVE, of_digest=row.digest, seen_applied_at=row.applied_at)
    return deleted
