"""Runs that lost their worker and are resumed automatically."""

import sqlalchemy as sa
from alembic import op

revision = "0043"
down_revision = "0042"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Brings the schema to this revision."""
    op.create_table(
        "interruptions",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("interrupted_at", sa.BigInteger(), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=True),
        sa.Column("followed_by", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["run_id"], ["runs.run_id"], name=op.f("fk_interruptions_run_id_runs"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_interruptions")),
        sa.UniqueConstraint("followed_by", name=op.f("uq_interruptions_followed_by")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_interruptions_due",
        "interruptions",
        ["due_at"],
        sqlite_where=sa.text("due_at IS NOT NULL"),
        postgresql_where=sa.text("due_at IS NOT NULL"),
    )


def downgrade() -> None:
    """Takes the schema back to the revision before."""
    op.drop_table("interruptions")
