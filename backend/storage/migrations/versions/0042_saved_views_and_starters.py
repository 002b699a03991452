"""Saved views of people; audited starts of runs by their actor, so that the runs of a person are found."""

import sqlalchemy as sa
from alembic import op

revision = "0042"
down_revision = "0041"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Brings the schema to this revision."""
    op.add_column("users", sa.Column("views", sa.Text(), nullable=True))
    op.create_index(
        "ix_audit_records_starts",
        "audit_records",
        ["actor", "at", "target"],
        sqlite_where=sa.text("action = 'run.started'"),
        postgresql_where=sa.text("action = 'run.started'"),
    )


def downgrade() -> None:
    """Takes the schema back to the revision before."""
    op.drop_index("ix_audit_records_starts", table_name="audit_records")
    op.drop_column("users", "views")
