"""Deadlines, reminders, approvers and forms of approvals, and webhook events of deadlines and reminders."""

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None

_TIMES = ("deadline_at", "remind_at", "reminded_at")
_TEXTS = ("on_deadline", "approvers", "form_schema", "form", "summary")
_INDEXES: dict[str, tuple[list[str | sa.TextClause], str]] = {
    "ix_approvals_deadline": (["deadline_at"], "state = 'pending' AND deadline_at IS NOT NULL"),
    "ix_approvals_by_deadline": (
        [sa.text("coalesce(deadline_at, 4611686018427387904)"), "approval_id"],
        "state = 'pending'",
    ),
    "ix_approvals_remind": (["remind_at"], "state = 'pending' AND remind_at IS NOT NULL"),
}
_FLAGS = ("approval_reminded", "approval_expired")


def upgrade() -> None:
    """Brings the schema to this revision."""
    for name in _TIMES:
        op.add_column("approvals", sa.Column(name, sa.BigInteger(), nullable=True))
    for name in _TEXTS:
        op.add_column("approvals", sa.Column(name, sa.Text(), nullable=True))
    for name, (columns, condition) in _INDEXES.items():
        where = sa.text(condition)
        op.create_index(name, "approvals", columns, sqlite_where=where, postgresql_where=where)
    for flag in _FLAGS:
        op.add_column("webhooks", sa.Column(flag, sa.Integer(), nullable=False, server_default="0"))


def downgrade() -> None:
    """Takes the schema back to the revision before."""
    for flag in reversed(_FLAGS):
        op.drop_column("webhooks", flag)
    for name in reversed(_INDEXES):
        op.drop_index(name, "approvals")
    for name in (*_TEXTS, *_TIMES):
        op.drop_column("approvals", name)
