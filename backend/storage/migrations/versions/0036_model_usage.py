"""Tokens and prices of calls to models, by attempt and by day; a run's sums; daily limits of keys."""

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0035"
branch_labels = None
depends_on = None

_SUMS = ("model_calls", "input_tokens", "output_tokens")
_LIMITS = ("daily_tokens", "daily_cost_microusd")


def upgrade() -> None:
    """Brings the schema to this revision."""
    for name in _SUMS:
        op.add_column("runs", sa.Column(name, sa.BigInteger(), nullable=False, server_default="0"))
    for name in _LIMITS:
        op.add_column("api_keys", sa.Column(name, sa.BigInteger(), nullable=True))
    op.create_table(
        "model_usage",
        sa.Column("run_id", sa.Text(), primary_key=True),
        sa.Column("step", sa.Text(), primary_key=True),
        sa.Column("item_index", sa.Integer(), primary_key=True),
        sa.Column("attempt", sa.Integer(), primary_key=True),
        sa.Column("model", sa.Text(), primary_key=True),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("model_calls", sa.BigInteger(), nullable=False),
        sa.Column("input_tokens", sa.BigInteger(), nullable=False),
        sa.Column("output_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cached_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cost_microusd", sa.BigInteger(), nullable=True),
    )
    op.create_index("ix_model_usage_at", "model_usage", ["at"])
    op.create_table(
        "model_usage_days",
        sa.Column("day", sa.Integer(), primary_key=True),
        sa.Column("key_id", sa.Text(), primary_key=True),
        sa.Column("workflow_id", sa.Text(), primary_key=True),
        sa.Column("model", sa.Text(), primary_key=True),
        sa.Column("model_calls", sa.BigInteger(), nullable=False),
        sa.Column("input_tokens", sa.BigInteger(), nullable=False),
        sa.Column("output_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cached_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cost_microusd", sa.BigInteger(), nullable=False),
        sa.Column("unpriced_calls", sa.BigInteger(), nullable=False),
    )
    op.create_index("ix_model_usage_days_key_id_day", "model_usage_days", ["key_id", "day"])


def downgrade() -> None:
    """Takes the schema back to the revision before."""
    op.drop_table("model_usage_days")
    op.drop_table("model_usage")
    for name in reversed(_LIMITS):
        op.drop_column("api_keys", name)
    for name in reversed(_SUMS):
        op.drop_column("runs", name)
