"""Pins of agents and environments by workflow version; before, runs used the newest ones."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_KINDS = ("agent", "environment")


def upgrade() -> None:
    """Brings the schema to this revision."""
    op.add_column("workflow_versions", sa.Column("definition_version", sa.Integer(), nullable=True))
    table = op.create_table(
        "workflow_version_resources",
        sa.Column("workflow_id", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("resource_id", sa.Text(), nullable=True),
        sa.Column("resource_version", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(
            ["workflow_id", "version"],
            ["workflow_versions.workflow_id", "workflow_versions.version"],
            name=op.f("fk_workflow_version_resources_workflow_id_workflow_versions"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["resource_id", "resource_version"],
            ["resource_versions.resource_id", "resource_versions.version"],
            name=op.f("fk_workflow_version_resources_resource_id_resource_versions"),
        ),
        sa.PrimaryKeyConstraint("workflow_id", "version", "kind", "name", name=op.f("pk_workflow_version_resources")),
    )
    _pin_every_version(table)


def downgrade() -> None:
    """Takes the schema back to the revision before."""
    op.drop_table("workflow_version_resources")
    op.execute(
        "UPDATE workflow_versions SET definition = (SELECT shared.definition FROM workflow_versions AS shared"
        " WHERE shared.workflow_id = workflow_versions.workflow_id"
        " AND shared.version = workflow_versions.definition_version) WHERE definition_version IS NOT NULL"
    )
    with op.batch_alter_table("workflow_versions") as batch:
        batch.drop_column("definition_version")


def _pin_every_version(table: sa.Table) -> None:
    """Pins older versions to the present agents too, because their runs have used these so far."""
    connection = op.get_bind()
    resources = sa.table("resources", *(sa.column(name) for name in ("kind", "name", "resource_id", "version")))
    rows = connection.execute(sa.select(resources).where(resources.c.kind.in_(_KINDS)))
    present = {(row.kind, row.name): row for row in rows}
    versions = sa.table("workflow_versions", sa.column("workflow_id"), sa.column("version"), sa.column("definition"))
    keys = connection.execute(sa.select(versions.c.workflow_id, versions.c.version)).all()
    for workflow_id, version in keys:
        # One at a time, for a definition may have 8 MiB.
        one = sa.select(versions.c.definition).where(
            versions.c.workflow_id == workflow_id, versions.c.version == version
        )
        pins = [
            {
                "workflow_id": workflow_id,
                "version": version,
                "kind": kind,
                "name": name,
                "resource_id": found.resource_id if (found := present.get((kind, name))) else None,
                "resource_version": found.version if found else None,
            }
            for kind, name in sorted(set(_named(json.loads(connection.execute(one).scalar_one()))))
        ]
        if pins:
            connection.execute(table.insert(), pins)


def _named(definition: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for step in definition["steps"]:
        for kind in _KINDS:
            if step[kind] is not None:
                yield kind, step[kind]
