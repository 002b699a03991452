"""Values of the variables of manifests, with each version of a definition that was applied with them."""

import sqlalchemy as sa
from alembic import op

revision = "0037"
down_revision = "0036"
branch_labels = None
depends_on = None

_TABLES = ("workflow_versions", "resource_versions")


def upgrade() -> None:
    """Brings the schema to this revision."""
    for table in _TABLES:
        op.add_column(table, sa.Column("variables", sa.Text(), nullable=True))


def downgrade() -> None:
    """Takes the schema back to the revision before."""
    for table in _TABLES:
        op.drop_column(table, "variables")
