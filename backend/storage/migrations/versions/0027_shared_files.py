"""The files that steps leave for later steps alone."""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Brings the schema to this revision."""
    op.create_table(
        "shared_files",
        sa.Column("object_key", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("step", sa.Text(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id"], ["runs.run_id"], name=op.f("fk_shared_files_run_id_runs"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("object_key", name=op.f("pk_shared_files")),
    )
    op.create_index(op.f("ix_shared_files_run_id"), "shared_files", ["run_id"])


def downgrade() -> None:
    """Takes the schema back to the revision before."""
    op.drop_table("shared_files")
