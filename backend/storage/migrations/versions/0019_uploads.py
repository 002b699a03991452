"""Uploads: files that people give to runs."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Brings the schema to this revision."""
    op.create_table(
        "uploads",
        sa.Column("upload_id", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("upload_id", name="pk_uploads"),
    )
    unused = sa.text("run_id IS NULL")
    for name, columns in {"ix_uploads_open": ["owner"], "ix_uploads_expiring": ["expires_at"]}.items():
        op.create_index(name, "uploads", columns, sqlite_where=unused, postgresql_where=unused)
    op.create_index("ix_uploads_run_id", "uploads", ["run_id"])
    op.create_table(
        "upload_files",
        sa.Column("upload_id", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("parameter", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("stored_bytes", sa.BigInteger(), nullable=False),
        sa.Column("finished", sa.Integer(), nullable=False),
        sa.Column("members", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["upload_id"], ["uploads.upload_id"], name="fk_upload_files_upload_id_uploads", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("upload_id", "number", name="pk_upload_files"),
    )


def downgrade() -> None:
    """Takes the schema back to the revision before."""
    op.drop_table("upload_files")
    op.drop_table("uploads")
