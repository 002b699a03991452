"""Number of dispatches of each segment, and free slots that workers report."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Brings the schema to this revision."""
    op.add_column("segments", sa.Column("hand_overs", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("workers", sa.Column("room", sa.Integer(), nullable=False, server_default="1"))


def downgrade() -> None:
    """Takes the schema back to the revision before."""
    op.drop_column("workers", "room")
    op.drop_column("segments", "hand_overs")
