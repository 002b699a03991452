"""Runs that a step of another run starts: their parent, and the number of runs above them."""

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None

_CHILD = "parent_run_id IS NOT NULL"
_IN_FLIGHT = f"{_CHILD} AND (status = 'queued' OR status = 'running' OR status = 'waiting_for_approval')"


def upgrade() -> None:
    """Brings the schema to this revision."""
    op.add_column("runs", sa.Column("parent_run_id", sa.Text(), nullable=True))
    op.add_column("runs", sa.Column("parent_step", sa.Text(), nullable=True))
    op.add_column("runs", sa.Column("parent_item", sa.Integer(), nullable=True))
    op.add_column("runs", sa.Column("depth", sa.Integer(), nullable=False, server_default="0"))
    for name, columns, condition in (
        ("ix_runs_children", ["parent_run_id", "created_at", "run_id"], _CHILD),
        ("ix_runs_children_in_flight", ["key_id"], _IN_FLIGHT),
    ):
        where = sa.text(condition)
        op.create_index(name, "runs", columns, if_not_exists=True, sqlite_where=where, postgresql_where=where)


def downgrade() -> None:
    """Takes the schema back to the revision before."""
    for name in ("ix_runs_children_in_flight", "ix_runs_children"):
        op.drop_index(name, "runs")
    for name in ("depth", "parent_item", "parent_step", "parent_run_id"):
        op.drop_column("runs", name)
