"""Failed sign-ins are counted by name and address instead of by name; counts of the last day begin anew."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Brings the schema to this revision."""
    _replace_table("subject_sha256")


def downgrade() -> None:
    """Takes the schema back to the revision before."""
    _replace_table("name_sha256")


def _replace_table(key: str) -> None:
    op.drop_table("sign_in_tries")
    op.create_table(
        "sign_in_tries",
        sa.Column(key, sa.Text(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("last_at", sa.BigInteger(), nullable=False),
        sa.Column("waits_until", sa.BigInteger(), nullable=False),
        sa.Column("audited_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint(key, name=op.f("pk_sign_in_tries")),
    )
    op.create_index(op.f("ix_sign_in_tries_last_at"), "sign_in_tries", ["last_at"])
