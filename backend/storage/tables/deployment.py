"""Table of the deployment record."""

from typing import NamedTuple

from sqlalchemy import BigInteger, Column, Integer, Table, Text

from backend.storage.tables.metadata import METADATA

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
