"""Table of the audit trail."""

from typing import NamedTuple

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
    Index("ix_audit_records_newest", "at", "audit_id"),
    Index("ix_audit_records_of_actor", "actor", "at", "audit_id"),
    Index("ix_audit_records_of_action", "action", "at", "audit_id"),
    Index("ix_audit_records_of_target", "target", "at", "audit_id"),
)


class AuditRow(NamedTuple):
    """One record of the audit trail."""

    audit_id: str
    at: int
    actor: str
    action: str
    target: str
    details: str
