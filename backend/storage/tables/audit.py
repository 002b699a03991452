"""Table of the audit trail."""

from sqlalchemy import BigInteger, Column, Index, Table, Text

from backend.storage.tables.metadata import METADATA

audit_records = Table(
    "audit_records",
    METADATA,
    Column("audit_id", Text, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("actor", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("details", Text, nullable=False),
    Index(None, "at"),
    Index(None, "target", "at"),
)
