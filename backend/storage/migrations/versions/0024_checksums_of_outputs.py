"""The CRC-32 of each output, which the zip of a run states ahead of its bytes; null for outputs of earlier releases."""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Brings the schema to this revision."""
    op.add_column("outputs", sa.Column("crc32", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    """Takes the schema back to the revision before."""
    op.drop_column("outputs", "crc32")
