"""An index of the runs of each workflow by their end, for figures of the workflow."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

_NAME = "ix_runs_ended_of_workflow"
_COLUMNS = ["workflow_id", "finished_at", "run_id", "status", "started_at"]


def upgrade() -> None:
    """Brings the schema to this revision."""
    where = sa.text("finished_at IS NOT NULL")
    # An operator may have built it before, without a lock.
    op.create_index(_NAME, "runs", _COLUMNS, if_not_exists=True, sqlite_where=where, postgresql_where=where)


def downgrade() -> None:
    """Takes the schema back to the revision before."""
    op.drop_index(_NAME, "runs")
