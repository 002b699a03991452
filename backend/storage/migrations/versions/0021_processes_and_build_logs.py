"""Processes of the deployment as they report, logs of builds, and the newest publications of a graph."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Brings the schema to this revision."""
    op.create_table(
        "processes",
        sa.Column("process_id", sa.Text(), nullable=False),
        sa.Column("part", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("pid", sa.BigInteger(), nullable=False),
        sa.Column("release", sa.Text(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("seen_at", sa.BigInteger(), nullable=False),
        sa.Column("clock_ahead", sa.BigInteger(), nullable=True),
        sa.Column("data_total", sa.BigInteger(), nullable=True),
        sa.Column("data_free", sa.BigInteger(), nullable=True),
        sa.Column("objects_total", sa.BigInteger(), nullable=True),
        sa.Column("objects_free", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("process_id", name=op.f("pk_processes")),
    )
    op.add_column("environment_builds", sa.Column("log", sa.Text(), nullable=True))
    op.create_index("ix_publications_graph_id_requested_at", "publications", ["graph_id", "requested_at"])


def downgrade() -> None:
    """Takes the schema back to the revision before."""
    op.drop_index("ix_publications_graph_id_requested_at", table_name="publications")
    with op.batch_alter_table("environment_builds") as batch_op:
        batch_op.drop_column("log")
    op.drop_table("processes")
