"""The spans that started runs, so that their traces go on in every later segment."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Brings the schema to this revision."""
    op.create_table(
        "run_traces",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("traceparent", sa.Text(), nullable=False),
        sa.Column("tracestate", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["run_id"], ["runs.run_id"], name=op.f("fk_run_traces_run_id_runs"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_run_traces")),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    """Takes the schema back to the revision before."""
    op.drop_table("run_traces")
