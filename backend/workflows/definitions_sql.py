"""SQL of the versions of definitions, and of the workflows that use what they name."""

from typing import Final, NamedTuple

from sqlalchemy import BigInteger, Text, bindparam, cast, func, null, select

from backend.storage.database import Tx
from backend.storage.like_patterns import containing
from backend.storage.statements import Query, select_row
from backend.storage.tables.workflows import (
    resource_versions,
    workflow_version_resources,
    workflow_versions,
    workflows,
)


class VersionRow(NamedTuple):
    """A version, and when it was saved."""

    version: int
    created_at: int


class UseRow(NamedTuple):
    """A workflow whose newest version uses a resource, and in which version; None of what is not pinned."""

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
# Other versions share the definition of the one that `definition_version` names.
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
    """Returns versions below a number, newest first, of a workflow or of a resource."""
    query = _OF_WORKFLOW if kind == "Workflow" else _OF_RESOURCE
    return tx.all(query, of=definition_id, before=before, limit=limit)


def uses(tx: Tx, resource_id: str, *, after: str, limit: int) -> list[UseRow]:
    """Returns workflows that use a resource, by name, that come after a name."""
    return tx.all(_USES, of=resource_id, after=after, limit=limit)


def mentioning(tx: Tx, text: str, *, after: str) -> list[UseRow]:
    """Returns workflows whose newest definition has a text anywhere, by name, that come after a name."""
    return tx.all(_MENTIONING, pattern=containing(text), after=after)
