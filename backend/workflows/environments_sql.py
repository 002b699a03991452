"""SQL of environments as resources, page by page."""

from typing import NamedTuple

from sqlalchemy import bindparam, literal_column

from backend.storage.database import Tx
from backend.storage.statements import Query, select_row
from backend.storage.tables.workflows import resources


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


def environments(tx: Tx, *, after: str, limit: int) -> list[EnvironmentRow]:
    """Returns environments by name, that come after a name."""
    return tx.all(_ENVIRONMENTS, after=after, limit=limit)
