"""Claims of publications, so that one process at a time changes the named graph of a run."""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Brings the schema to this revision."""
    op.add_column("publications", sa.Column("claimed_by", sa.Text(), nullable=True))
    op.add_column("publications", sa.Column("claimed_until", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    """Takes the schema back to the revision before."""
    with op.batch_alter_table("publications") as batch_op:
        batch_op.drop_column("claimed_until")
        batch_op.drop_column("claimed_by")
