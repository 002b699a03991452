"""SQL of environments as resources: page by page, and the locks that versions of workflows use."""

from typing import NamedTuple

from sqlalchemy import and_, bindparam, literal_column, select

from backend.storage.database import Tx
from backend.storage.json_member import json_member
from backend.storage.statements import Query, ScalarQuery, select_row
from backend.storage.tables.workflows import resource_versions, resources, workflow_version_resources


class EnvironmentRow(NamedTuple):
    """An environment at its newest version."""

    resource_id: str
    name: str
    version: int
    definition: str


_ENVIRONMENTS = Query(
    EnvironmentRow,
    select_row(EnvironmentRow, resources)
    .where(resources.c.kind == literal_column("'environment'"), resources.c.name > bindparam("after"))
    .order_by(resources.c.name)
    .limit(bindparam("limit")),
)


_KEPT_LOCKS = ScalarQuery[str | None](
    select(json_member(resource_versions.c.definition, "python", "lock").label("digest"))
    .select_from(workflow_version_resources)
    .join(
        resource_versions,
        and_(
            resource_versions.c.resource_id == workflow_version_resources.c.resource_id,
            resource_versions.c.version == workflow_version_resources.c.resource_version,
        ),
    )
    .where(workflow_version_resources.c.kind == literal_column("'environment'"))
    .distinct()
)


def kept_locks(tx: Tx) -> set[str]:
    """Returns the digests of the locks that versions of workflows use."""
    return {digest for digest in tx.scalars(_KEPT_LOCKS) if digest is not None}


def environments(tx: Tx, *, after: str, limit: int) -> list[EnvironmentRow]:
    """Returns environments by name, that come after a name."""
    return tx.all(_ENVIRONMENTS, after=after, limit=limit)
