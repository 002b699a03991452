"""Tables of the processes that execute runs."""

from sqlalchemy import BigInteger, Column, Integer, Table, Text

from backend.storage.tables.metadata import METADATA

# A process whose row is gone is dead, or must behave as if it were: its segments are orphaned.
workers = Table(
    "workers",
    METADATA,
    # An id made at the start of the process and never used again.
    Column("owner", Text, primary_key=True),
    Column("host", Text, nullable=False),
    # Steps that it runs at once.
    Column("step_slots", Integer, nullable=False),
    Column("started_at", BigInteger, nullable=False),
    Column("lease_until", BigInteger, nullable=False),
    # Set once it takes no new segments.
    Column("draining", Integer, nullable=False),
    # Segments that it could have taken besides those it had, when it last renewed.
    Column("room", Integer, nullable=False, server_default="1"),
)
