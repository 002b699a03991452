"""SQL of what runs published to a knowledge graph."""

from typing import NamedTuple

from sqlalchemy import bindparam, literal_column

from backend.storage.database import Tx
from backend.storage.statements import Query, select_row
from backend.storage.tables.publishing import publications


class PublicationRow(NamedTuple):
    """A publication of a run to a knowledge graph."""

    run_id: str
    state: str
    requested_at: int


_NEWEST = Query(
    PublicationRow,
    select_row(PublicationRow, publications)
    .where(publications.c.graph_id == bindparam("graph_id"))
    .order_by(publications.c.requested_at.desc())
    .limit(literal_column("20")),
)


def newest_publications(tx: Tx, graph_id: str) -> list[PublicationRow]:
    """Returns the 20 publications to a knowledge graph that were asked for last, the newest first."""
    return tx.all(_NEWEST, graph_id=graph_id)
