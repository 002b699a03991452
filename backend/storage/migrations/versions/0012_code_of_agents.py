"""Folders with the code of agents, and the versions of agents that have them."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Brings the schema to this revision."""
    op.create_table(
        "agent_sources",
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("archive", sa.LargeBinary(), nullable=False),
        sa.Column("applied_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_agent_sources")),
    )
    op.create_index(op.f("ix_agent_sources_applied_at"), "agent_sources", ["applied_at"])
    op.add_column("resource_versions", sa.Column("source_digest", sa.Text(), nullable=True))
    op.create_index(op.f("ix_resource_versions_source_digest"), "resource_versions", ["source_digest"])


def downgrade() -> None:
    """Takes the schema back to the revision before."""
    op.drop_index(op.f("ix_resource_versions_source_digest"), "resource_versions")
    with op.batch_alter_table("resource_versions") as batch:
        batch.drop_column("source_digest")
    op.drop_table("agent_sources")
