"""Calls of tools that wait for a person: the call of an approval, and the conversation of a step that waits."""

import sqlalchemy as sa
from alembic import op

revision = "0039"
down_revision = "0038"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Brings the schema to this revision."""
    op.add_column("approvals", sa.Column("tool_call", sa.Text(), nullable=True))
    op.add_column("steps", sa.Column("pauses", sa.Integer(), nullable=True))
    op.add_column("steps", sa.Column("paused", sa.Text(), nullable=True))


def downgrade() -> None:
    """Takes the schema back to the revision before."""
    op.drop_column("steps", "paused")
    op.drop_column("steps", "pauses")
    op.drop_column("approvals", "tool_call")
