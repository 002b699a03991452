"""Indexes that serve every filter of the run list in order, and lighter replacements of earlier indexes."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_IN_FLIGHT = "status = 'queued' OR status = 'running' OR status = 'waiting_for_approval'"
_FINISHED = "status = 'completed' OR status = 'failed' OR status = 'cancelled'"
_ORDER = ["status", "created_at", "run_id"]

_NEW = {
    "ix_runs_expiring": (["finished_at"], "finished_at IS NOT NULL AND data_purged_at IS NULL"),
    "ix_runs_in_flight": (["key_id", *_ORDER], _IN_FLIGHT),
    "ix_runs_finished": (["key_id", *_ORDER], _FINISHED),
    "ix_runs_finished_of_workflow": (["key_id", "workflow_id", *_ORDER], _FINISHED),
    "ix_runs_finished_of_reference": (
        ["client_reference", "key_id", "workflow_id", *_ORDER],
        f"client_reference IS NOT NULL AND ({_FINISHED})",
    ),
}
_OLD = {
    "ix_runs_kept": (["finished_at"], "data_purged_at IS NULL"),
    "ix_runs_active": (["key_id", "status"], "status IN ('queued', 'running', 'waiting_for_approval')"),
}


def upgrade() -> None:
    """Brings the schema to this revision."""
    _replace(_OLD, _NEW)
    op.create_index(op.f("ix_usage_hours_key_id_hour"), "usage_hours", ["key_id", "hour"], if_not_exists=True)


def downgrade() -> None:
    """Takes the schema back to the revision before."""
    op.drop_index(op.f("ix_usage_hours_key_id_hour"), "usage_hours")
    _replace(_NEW, _OLD)


def _replace(old: dict[str, tuple[list[str], str]], new: dict[str, tuple[list[str], str]]) -> None:
    for name, (columns, condition) in new.items():
        where = sa.text(condition)
        # An operator may have built it before, without a lock.
        op.create_index(name, "runs", columns, if_not_exists=True, sqlite_where=where, postgresql_where=where)
    for name in old:
        op.drop_index(name, "runs")
