"""Tables of the deployment: its record, its processes with their leases, and the audit trail."""

from typing import NamedTuple

from sqlalchemy import BigInteger, Column, Index, Integer, Table, Text

from backend.storage.tables.metadata import METADATA, partial_index

deployments = Table(
    "deployments",
    METADATA,
    Column("deployment_id", Text, primary_key=True),
    Column("governed", Integer, nullable=False),
    Column("api_enabled", Integer, nullable=False),
    Column("any_key_ever", Integer, nullable=False),
    Column("licence_state", Text, nullable=False),
    Column("licence_reason", Text),
    Column("licence_enforcement_status", Text),
    Column("license_id", Text),
    Column("retention_days", Integer, nullable=False),
    # Rises with every change of a key or a flag; the edges watch it to update their copies.
    Column("revision", BigInteger, nullable=False),
    # Key of the authenticated cursors.
    Column("cursor_secret", Text, nullable=False),
)


class DeploymentRow(NamedTuple):
    """The deployment."""

    deployment_id: str
    governed: int
    api_enabled: int
    any_key_ever: int
    licence_state: str
    licence_reason: str | None
    licence_enforcement_status: str | None
    license_id: str | None
    retention_days: int
    revision: int
    cursor_secret: str


# For people who look after the deployment; nothing else depends on it. Leases are in `workers`.
processes = Table(
    "processes",
    METADATA,
    # An id made at the start of the process and never used again.
    Column("process_id", Text, primary_key=True),
    # `backend`, `worker` or `edge`.
    Column("part", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("pid", BigInteger, nullable=False),
    Column("release", Text, nullable=False),
    Column("started_at", BigInteger, nullable=False),
    Column("seen_at", BigInteger, nullable=False),
    # Milliseconds; null where it is not known.
    Column("clock_ahead", BigInteger),
    # Bytes of the file systems of the data folder and of the object store; null where there is none.
    Column("data_total", BigInteger),
    Column("data_free", BigInteger),
    Column("objects_total", BigInteger),
    Column("objects_free", BigInteger),
    # Bytes an hour by which these two fill.
    Column("data_filling", BigInteger),
    Column("objects_filling", BigInteger),
    # Of the certificate that it presents to other parts; null where it presents none.
    Column("certificate_expires_at", BigInteger),
    # JSON list of texts: backends that it cannot call, and why; null where there are none.
    Column("unusable_backends", Text),
)

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
    # Runs that a person started, in the order of the list of runs; starts with keys are not audited.
    partial_index("ix_audit_records_starts", "actor", "at", "target", where="action = 'run.started'"),
)


class AuditRow(NamedTuple):
    """One record of the audit trail."""

    audit_id: str
    at: int
    actor: str
    action: str
    target: str
    details: str
