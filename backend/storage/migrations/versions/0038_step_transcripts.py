"""Transcripts of steps that ask models: a row for each attempt, and parts while there is no object."""

import sqlalchemy as sa
from alembic import op

revision = "0038"
down_revision = "0037"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Brings the schema to this revision."""
    op.create_table(
        "step_transcripts",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("step", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("began_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("size_bytes", sa.BigInteger(), nullable=True),
        sa.Column("problem", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["run_id"], ["runs.run_id"], name=op.f("fk_step_transcripts_run_id_runs"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("run_id", "step", "attempt", name=op.f("pk_step_transcripts")),
    )
    op.create_table(
        "step_transcript_parts",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("step", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("superseded_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["run_id"], ["runs.run_id"], name=op.f("fk_step_transcript_parts_run_id_runs"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("run_id", "step", "attempt", "seq", name=op.f("pk_step_transcript_parts")),
    )
    op.create_index(
        "ix_step_transcript_parts_superseded",
        "step_transcript_parts",
        ["superseded_at"],
        sqlite_where=sa.text("superseded_at IS NOT NULL"),
        postgresql_where=sa.text("superseded_at IS NOT NULL"),
    )


def downgrade() -> None:
    """Takes the schema back to the revision before."""
    op.drop_table("step_transcript_parts")
    op.drop_table("step_transcripts")
