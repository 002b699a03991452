"""Tables of what step attempts print: one row an attempt, and parts of its text while it runs."""

from typing import NamedTuple

from sqlalchemy import BigInteger, Column, ForeignKey, Integer, Table, Text

from backend.storage.tables.metadata import METADATA, partial_index
from backend.storage.tables.runs import runs

step_logs = Table(
    "step_logs",
    METADATA,
    Column("run_id", Text, ForeignKey(runs.c.run_id, ondelete="CASCADE"), primary_key=True),
    Column("step", Text, primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("began_at", BigInteger, nullable=False),
    # Null while the attempt runs, and where its process died.
    Column("ended_at", BigInteger),
    # Bytes of the stored object; null while there is none, and the parts are all there is.
    Column("size_bytes", BigInteger),
    # Why the log is not shown.
    Column("problem", Text),
)


# The beginning and the end of what is printed, swept by the run's PII policy. Seqs that are missing were cut.
step_log_parts = Table(
    "step_log_parts",
    METADATA,
    Column("run_id", Text, ForeignKey(runs.c.run_id, ondelete="CASCADE"), primary_key=True),
    Column("step", Text, primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("seq", Integer, primary_key=True),
    Column("text", Text, nullable=False),
    # When the stored object took its place; whoever follows may still read it.
    Column("superseded_at", BigInteger),
    partial_index(
        "ix_step_log_parts_superseded",
        "superseded_at",
        where="superseded_at IS NOT NULL",
    ),
)


class StepLogPartRow(NamedTuple):
    """A part of a log."""

    seq: int
    text: str
