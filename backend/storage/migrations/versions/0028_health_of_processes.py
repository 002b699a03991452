"""Certificates, unusable backends and filling disks of processes as they report."""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Brings the schema to this revision."""
    op.add_column("processes", sa.Column("data_filling", sa.BigInteger(), nullable=True))
    op.add_column("processes", sa.Column("objects_filling", sa.BigInteger(), nullable=True))
    op.add_column("processes", sa.Column("certificate_expires_at", sa.BigInteger(), nullable=True))
    op.add_column("processes", sa.Column("unusable_backends", sa.Text(), nullable=True))


def downgrade() -> None:
    """Takes the schema back to the revision before."""
    for name in ("unusable_backends", "certificate_expires_at", "objects_filling", "data_filling"):
        op.drop_column("processes", name)
