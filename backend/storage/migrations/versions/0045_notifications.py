"""Targets that operators are notified at, and the messages to them."""

import sqlalchemy as sa
from alembic import op

revision = "0045"
down_revision = "0044"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Brings the schema to this revision."""
    op.create_table(
        "notification_targets",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("events", sa.Text(), nullable=False),
        sa.Column("workflows", sa.Text(), nullable=True),
        sa.Column("delivered_at", sa.BigInteger(), nullable=True),
        sa.Column("failed_at", sa.BigInteger(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_notification_targets")),
    )
    op.create_table(
        "notifications",
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("message_id", sa.Text(), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=True),
        sa.Column("workflow_id", sa.Text(), nullable=True),
        sa.Column("details", sa.Text(), nullable=True),
        sa.Column("occurred_at", sa.BigInteger(), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=True),
        sa.Column("claim", sa.Text(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["target"],
            ["notification_targets.name"],
            name=op.f("fk_notifications_target_notification_targets"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["run_id"], ["runs.run_id"], name=op.f("fk_notifications_run_id_runs"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("target", "message_id", name=op.f("pk_notifications")),
    )
    op.create_index(op.f("ix_notifications_occurred_at"), "notifications", ["occurred_at"])
    op.create_index(op.f("ix_notifications_run_id"), "notifications", ["run_id"])
    op.create_index("ix_notifications_subject", "notifications", ["target", "event", "subject", "occurred_at"])
    op.create_index(
        "ix_notifications_due",
        "notifications",
        ["target", "due_at"],
        sqlite_where=sa.text("due_at IS NOT NULL"),
        postgresql_where=sa.text("due_at IS NOT NULL"),
    )


def downgrade() -> None:
    """Takes the schema back to the revision before."""
    op.drop_table("notifications")
    op.drop_table("notification_targets")
