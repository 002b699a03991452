"""Durations of calls."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Brings the schema to this revision."""
    op.add_column("usage_records", sa.Column("duration_us", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    """Takes the schema back to the revision before."""
    with op.batch_alter_table("usage_records") as batch_op:
        batch_op.drop_column("duration_us")
