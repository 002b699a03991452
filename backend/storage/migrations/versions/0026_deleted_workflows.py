"""Time of deletion of workflows whose versions runs still name."""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Brings the schema to this revision."""
    op.add_column("workflows", sa.Column("deleted_at", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    """Takes the schema back to the revision before."""
    op.drop_column("workflows", "deleted_at")
