"""Open work of the final sweeps of outputs."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_UNSWEPT = sa.text("redaction_state = 'pending'")


def upgrade() -> None:
    """Brings the schema to this revision."""
    op.create_table(
        "pending_deletions",
        sa.Column("object_key", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("object_key"),
    )
    op.create_index("ix_runs_unswept", "runs", ["finished_at"], sqlite_where=_UNSWEPT, postgresql_where=_UNSWEPT)


def downgrade() -> None:
    """Takes the schema back to the revision before."""
    op.drop_index("ix_runs_unswept", "runs", sqlite_where=_UNSWEPT, postgresql_where=_UNSWEPT)
    op.drop_table("pending_deletions")
