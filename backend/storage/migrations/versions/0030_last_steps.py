"""Phase of steps of `on_failure` and `always`, which run after all other steps."""

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Brings the schema to this revision."""
    op.add_column("steps", sa.Column("phase", sa.Text(), nullable=True))


def downgrade() -> None:
    """Takes the schema back to the revision before."""
    op.drop_column("steps", "phase")
