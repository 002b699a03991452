"""Priorities of keys, by which their waiting runs are dispatched."""

import sqlalchemy as sa
from alembic import op

revision = "0044"
down_revision = "0043"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Brings the schema to this revision."""
    op.add_column("api_keys", sa.Column("priority", sa.Text(), nullable=False, server_default="normal"))


def downgrade() -> None:
    """Takes the schema back to the revision before."""
    op.drop_column("api_keys", "priority")
