"""Links between resumed and new runs, and the completed steps that new runs reuse."""

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Brings the schema to this revision."""
    op.add_column("runs", sa.Column("resumed_from", sa.Text(), nullable=True))
    op.add_column("runs", sa.Column("resumed_by", sa.Text(), nullable=True))
    op.add_column("steps", sa.Column("files_count", sa.Integer(), nullable=True))
    op.add_column("steps", sa.Column("reused_from", sa.Text(), nullable=True))


def downgrade() -> None:
    """Takes the schema back to the revision before."""
    for table, name in (
        ("steps", "reused_from"),
        ("steps", "files_count"),
        ("runs", "resumed_by"),
        ("runs", "resumed_from"),
    ):
        op.drop_column(table, name)
