"""Usage records kept in groups."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Brings the schema to this revision; records of earlier releases stay where they are."""
    op.create_table(
        "usage_batches",
        sa.Column("batch_id", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("key_id", sa.Text(), nullable=False),
        sa.Column("first_at", sa.BigInteger(), nullable=False),
        sa.Column("last_at", sa.BigInteger(), nullable=False),
        sa.Column("calls", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("batch_id", "position", name=op.f("pk_usage_batches")),
    )
    op.create_index("ix_usage_batches_key_id_last_at", "usage_batches", ["key_id", "last_at"])
    op.create_index("ix_usage_batches_last_at", "usage_batches", ["last_at"])


def downgrade() -> None:
    """Takes the schema back to the revision before."""
    op.drop_table("usage_batches")
