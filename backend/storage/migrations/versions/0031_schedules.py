"""Schedules, planned starts, the runs that they started, and webhook messages that belong to no run."""

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None

_KEPT = (
    "webhook_id, message_id, run_id, ordinal, event, run_status, occurred_at, state, due_at, claim, attempts, "
    "first_attempt_at, last_attempt_at, last_status, last_error, finished_at"
)
_INDEXES = (
    ("ix_webhook_deliveries_newest", ("webhook_id", "occurred_at", "message_id"), False, None),
    ("ix_webhook_deliveries_run_id", ("run_id",), False, None),
    ("ix_webhook_deliveries_order", ("webhook_id", "run_id", "ordinal"), True, None),
    ("ix_webhook_deliveries_occurred_at", ("occurred_at",), False, None),
    ("ix_webhook_deliveries_pending", ("webhook_id", "run_id", "ordinal"), False, "state = 'pending'"),
    ("ix_webhook_deliveries_due", ("webhook_id", "due_at"), False, "due_at IS NOT NULL"),
)
_FLAGS = ("schedule_skipped", "schedule_failed")


def upgrade() -> None:
    """Brings the schema to this revision."""
    op.create_table(
        "schedules",
        sa.Column("schedule_id", sa.Text(), nullable=False),
        sa.Column("workflow_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("definition", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=True),
        sa.Column("paused", sa.Integer(), nullable=False),
        sa.Column("next_at", sa.BigInteger(), nullable=True),
        sa.Column("waiting_at", sa.BigInteger(), nullable=True),
        sa.Column("last_due_at", sa.BigInteger(), nullable=True),
        sa.Column("last_at", sa.BigInteger(), nullable=True),
        sa.Column("last_outcome", sa.Text(), nullable=True),
        sa.Column("last_run_id", sa.Text(), nullable=True),
        sa.Column("last_reason", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["workflow_id"],
            ["workflows.workflow_id"],
            name=op.f("fk_schedules_workflow_id_workflows"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("schedule_id", name=op.f("pk_schedules")),
        sa.UniqueConstraint("workflow_id", "name", name=op.f("uq_schedules_workflow_id_name")),
    )
    for column in ("next_at", "waiting_at"):
        condition = sa.text(f"{column} IS NOT NULL")
        op.create_index(
            f"ix_schedules_{'due' if column == 'next_at' else 'waiting'}",
            "schedules",
            [column],
            sqlite_where=condition,
            postgresql_where=condition,
        )
    op.create_table(
        "schedule_starts",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("workflow_id", sa.Text(), nullable=False),
        sa.Column("schedule", sa.Text(), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=True),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_schedule_starts")),
        sa.UniqueConstraint(
            "workflow_id", "schedule", "due_at", name=op.f("uq_schedule_starts_workflow_id_schedule_due_at")
        ),
    )
    for flag in _FLAGS:
        op.add_column("webhooks", sa.Column(flag, sa.Integer(), nullable=False, server_default=sa.text("0")))
    if op.get_bind().dialect.name == "sqlite":
        _rebuild_deliveries()
    else:
        op.add_column("webhook_deliveries", sa.Column("data", sa.Text(), nullable=True))
        op.alter_column("webhook_deliveries", "run_id", existing_type=sa.Text(), nullable=True)


def _rebuild_deliveries() -> None:
    """Rebuilds the table, where a column cannot become nullable, with its parts in an order that is always the same."""
    for name, *_ in _INDEXES:
        op.drop_index(name, "webhook_deliveries")
    op.rename_table("webhook_deliveries", "former_deliveries")
    op.create_table(
        "webhook_deliveries",
        sa.Column("webhook_id", sa.Text(), nullable=False),
        sa.Column("message_id", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=True),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("run_status", sa.Text(), nullable=False),
        sa.Column("occurred_at", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=True),
        sa.Column("claim", sa.Text(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("first_attempt_at", sa.BigInteger(), nullable=True),
        sa.Column("last_attempt_at", sa.BigInteger(), nullable=True),
        sa.Column("last_status", sa.Integer(), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.Column("data", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("webhook_id", "message_id", name=op.f("pk_webhook_deliveries")),
        sa.ForeignKeyConstraint(
            ["run_id"], ["runs.run_id"], name=op.f("fk_webhook_deliveries_run_id_runs"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["webhook_id"],
            ["webhooks.webhook_id"],
            name=op.f("fk_webhook_deliveries_webhook_id_webhooks"),
            ondelete="CASCADE",
        ),
    )
    op.execute(f"INSERT INTO webhook_deliveries ({_KEPT}) SELECT {_KEPT} FROM former_deliveries")  # noqa: S608 - ours
    op.drop_table("former_deliveries")
    for name, columns, unique, condition in _INDEXES:
        where = None if condition is None else sa.text(condition)
        op.create_index(name, "webhook_deliveries", list(columns), unique=unique, sqlite_where=where)


def downgrade() -> None:
    """Takes the schema back to the revision before."""
    op.execute("DELETE FROM webhook_deliveries WHERE run_id IS NULL")
    with op.batch_alter_table("webhook_deliveries") as batch_op:
        batch_op.alter_column("run_id", existing_type=sa.Text(), nullable=False)
    op.drop_column("webhook_deliveries", "data")
    for flag in reversed(_FLAGS):
        op.drop_column("webhooks", flag)
    op.drop_table("schedule_starts")
    op.drop_table("schedules")
