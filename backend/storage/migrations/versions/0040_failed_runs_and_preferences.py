"""Failed runs by their end, so that the newest are found among any number; preferences of people."""

import sqlalchemy as sa
from alembic import op

revision = "0040"
down_revision = "0039"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Brings the schema to this revision."""
    op.create_index(
        "ix_runs_failed",
        "runs",
        ["finished_at"],
        sqlite_where=sa.text("status = 'failed'"),
        postgresql_where=sa.text("status = 'failed'"),
    )
    op.add_column("users", sa.Column("preferences", sa.Text(), nullable=True))


def downgrade() -> None:
    """Takes the schema back to the revision before."""
    op.drop_column("users", "preferences")
    op.drop_index("ix_runs_failed", table_name="runs")
