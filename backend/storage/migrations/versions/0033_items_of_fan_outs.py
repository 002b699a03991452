"""The items of fan-outs: their progress, and their values until the step completes."""

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None

_OF_STEPS = ("items_total", "items_completed", "items_failed")


def upgrade() -> None:
    """Brings the schema to this revision."""
    for name in _OF_STEPS:
        op.add_column("steps", sa.Column(name, sa.Integer(), nullable=True))
    op.add_column("steps", sa.Column("items_from", sa.Text(), nullable=True))
    op.create_table(
        "step_items",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("step", sa.Text(), nullable=False),
        sa.Column("item_index", sa.Integer(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("item", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=True),
        sa.Column("value_bytes", sa.Integer(), nullable=True),
        sa.Column("files_count", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name="fk_step_items_run_id_runs", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "step", "item_index", name="pk_step_items"),
    )


def downgrade() -> None:
    """Takes the schema back to the revision before."""
    op.drop_table("step_items")
    op.drop_column("steps", "items_from")
    for name in reversed(_OF_STEPS):
        op.drop_column("steps", name)
