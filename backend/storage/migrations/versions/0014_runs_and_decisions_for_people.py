"""Labels of runs to search by, figures of days, and decisions in the order in which they were made."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_MEMBERS = {"sqlite": "json_each(runs.labels)", "postgresql": "json_each_text(runs.labels::json)"}
_INDEXES = {
    "ix_runs_ended": ("runs", ["finished_at", "status", "started_at"], "finished_at IS NOT NULL"),
    "ix_approvals_decided": ("approvals", ["decided_at", "approval_id"], "decided_by IS NOT NULL"),
}


def upgrade() -> None:
    """Brings the schema to this revision."""
    op.create_table(
        "run_labels",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id"], ["runs.run_id"], name=op.f("fk_run_labels_run_id_runs"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("run_id", "name", name=op.f("pk_run_labels")),
        sqlite_with_rowid=False,
    )
    members = _MEMBERS[op.get_bind().dialect.name]
    op.execute(
        "INSERT INTO run_labels (run_id, name, value, created_at) "  # noqa: S608 - ours
        f"SELECT runs.run_id, member.key, member.value, runs.created_at FROM runs, {members} AS member "
        "WHERE runs.labels <> '{}'"
    )
    op.create_index("ix_run_labels_newest", "run_labels", ["value", "created_at", "run_id"])
    op.create_table(
        "run_days",
        sa.Column("day", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("ended", sa.Integer(), nullable=False),
        sa.Column("failed", sa.Integer(), nullable=False),
        sa.Column("cancelled", sa.Integer(), nullable=False),
        sa.Column("median_ms", sa.BigInteger(), nullable=True),
        sa.Column("p95_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("day", name=op.f("pk_run_days")),
    )
    for name, (table, columns, condition) in _INDEXES.items():
        where = sa.text(condition)
        # An operator may have built it before, without a lock.
        op.create_index(name, table, columns, if_not_exists=True, sqlite_where=where, postgresql_where=where)


def downgrade() -> None:
    """Takes the schema back to the revision before."""
    for name, (table, _, _) in _INDEXES.items():
        op.drop_index(name, table)
    op.drop_table("run_days")
    op.drop_table("run_labels")
