"""Usage records counted by the hour."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Brings the schema to this revision, with counts of the existing records."""
    op.create_table(
        "usage_hours",
        sa.Column("hour", sa.BigInteger(), nullable=False),
        sa.Column("key_id", sa.Text(), nullable=False),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("route", sa.Text(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("calls", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("hour", "key_id", "method", "route", "status"),
    )
    op.execute(
        "INSERT INTO usage_hours (hour, key_id, method, route, status, calls) "
        "SELECT at - at % 3600000, key_id, method, route, status, count(*) FROM usage_records "
        "GROUP BY at - at % 3600000, key_id, method, route, status"
    )


def downgrade() -> None:
    """Takes the schema back to the revision before."""
    op.drop_table("usage_hours")
