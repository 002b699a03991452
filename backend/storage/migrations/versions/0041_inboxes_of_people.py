"""Inboxes of people: to whom an approval is assigned, and who has snoozed it."""

import sqlalchemy as sa
from alembic import op

revision = "0041"
down_revision = "0040"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Brings the schema to this revision."""
    op.add_column("approvals", sa.Column("assigned_to", sa.Text(), nullable=True))
    op.create_table(
        "approval_snoozes",
        sa.Column("approval_id", sa.Text(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["approval_id"],
            ["approvals.approval_id"],
            name=op.f("fk_approval_snoozes_approval_id_approvals"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("approval_id", "person", name=op.f("pk_approval_snoozes")),
    )


def downgrade() -> None:
    """Takes the schema back to the revision before."""
    op.drop_table("approval_snoozes")
    op.drop_column("approvals", "assigned_to")
