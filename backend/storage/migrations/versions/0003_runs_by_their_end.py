"""Finished runs in the order of their end, for the retention of their data."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_KEPT = sa.text("data_purged_at IS NULL")


def upgrade() -> None:
    """Brings the schema to this revision."""
    op.create_index("ix_runs_kept", "runs", ["finished_at"], sqlite_where=_KEPT, postgresql_where=_KEPT)


def downgrade() -> None:
    """Takes the schema back to the revision before."""
    op.drop_index("ix_runs_kept", "runs", sqlite_where=_KEPT, postgresql_where=_KEPT)
