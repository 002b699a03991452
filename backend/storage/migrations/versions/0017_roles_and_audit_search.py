"""Workflows of approvers, and indexes by which the audit trail is searched."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

_INDEXES = {
    "ix_audit_records_newest": ["at", "audit_id"],
    "ix_audit_records_of_actor": ["actor", "at", "audit_id"],
    "ix_audit_records_of_action": ["action", "at", "audit_id"],
    "ix_audit_records_of_target": ["target", "at", "audit_id"],
}
_BEFORE = {"ix_audit_records_at": ["at"], "ix_audit_records_target_at": ["target", "at"]}


def upgrade() -> None:
    """Brings the schema to this revision."""
    op.add_column("users", sa.Column("workflow_ids", sa.Text(), nullable=True))
    for name, columns in _INDEXES.items():
        # An operator may have built it before, without a lock.
        op.create_index(name, "audit_records", columns, if_not_exists=True)
    for name in _BEFORE:
        op.drop_index(name, "audit_records")


def downgrade() -> None:
    """Takes the schema back to the revision before."""
    for name, columns in _BEFORE.items():
        op.create_index(name, "audit_records", columns)
    for name in _INDEXES:
        op.drop_index(name, "audit_records")
    with op.batch_alter_table("users") as batch_op:
        batch_op.drop_column("workflow_ids")
