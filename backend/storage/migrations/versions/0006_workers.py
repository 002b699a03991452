"""Processes that execute runs, with their leases."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Brings the schema to this revision."""
    op.create_table(
        "workers",
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("step_slots", sa.Integer(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("lease_until", sa.BigInteger(), nullable=False),
        sa.Column("draining", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("owner", name=op.f("pk_workers")),
    )


def downgrade() -> None:
    """Takes the schema back to the revision before."""
    op.drop_table("workers")
