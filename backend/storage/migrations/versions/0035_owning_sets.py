"""The set that owns a workflow or a resource: only an apply in its name changes it."""

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None

_TABLES = ("workflows", "resources")


def upgrade() -> None:
    """Brings the schema to this revision."""
    for table in _TABLES:
        op.add_column(table, sa.Column("owner_set", sa.Text(), nullable=True))


def downgrade() -> None:
    """Takes the schema back to the revision before."""
    for table in _TABLES:
        op.drop_column(table, "owner_set")
