"""Table of what runs publish to knowledge graphs: the publisher's queue and record."""

from typing import Final

from sqlalchemy import BigInteger, Column, ColumnElement, Index, Integer, Table, Text, literal_column

from backend.storage.tables.metadata import METADATA, partial_index

OPEN_STATES: Final = ("pending", "landed", "removing")
"""States that the publisher has something to do for."""

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
    """Condition on `publications`, with the states in the text: a partial index serves the one of `OPEN_STATES`."""
    return publications.c.state.in_([literal_column(f"'{state}'") for state in states])
