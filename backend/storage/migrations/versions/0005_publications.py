"""Publications of runs to knowledge graphs."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_OPEN = sa.text("state IN ('pending', 'landed', 'removing')")


def upgrade() -> None:
    """Brings the schema to this revision."""
    op.create_table(
        "publications",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("graph_id", sa.Text(), nullable=False),
        sa.Column("graph_version", sa.Integer(), nullable=False),
        sa.Column("entry", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("requested_at", sa.BigInteger(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_attempt_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "graph_id", name=op.f("pk_publications")),
    )
    with op.batch_alter_table("publications") as batch:
        batch.create_index(batch.f("ix_publications_graph_id"), ["graph_id"], unique=False)
        batch.create_index(
            "ix_publications_open", ["next_attempt_at"], unique=False, sqlite_where=_OPEN, postgresql_where=_OPEN
        )


def downgrade() -> None:
    """Takes the schema back to the revision before."""
    with op.batch_alter_table("publications") as batch:
        batch.drop_index("ix_publications_open", sqlite_where=_OPEN, postgresql_where=_OPEN)
        batch.drop_index(batch.f("ix_publications_graph_id"))
    op.drop_table("publications")
