"""Locks of the packages of environments, and where these are built."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Brings the schema to this revision."""
    op.create_table(
        "environment_locks",
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("lock", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("requested_at", sa.BigInteger(), nullable=False),
        sa.Column("built_at", sa.BigInteger(), nullable=True),
        sa.Column("modules", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_environment_locks")),
    )
    op.create_table(
        "environment_packages",
        sa.Column("resource_id", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["digest"], ["environment_locks.digest"], name=op.f("fk_environment_packages_digest_environment_locks")
        ),
        sa.ForeignKeyConstraint(
            ["resource_id"],
            ["resources.resource_id"],
            name=op.f("fk_environment_packages_resource_id_resources"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("resource_id", name=op.f("pk_environment_packages")),
    )
    op.create_table(
        "environment_builds",
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("machine", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=True),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("seen_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["digest"], ["environment_locks.digest"], name=op.f("fk_environment_builds_digest_environment_locks")
        ),
        sa.PrimaryKeyConstraint("digest", "machine", name=op.f("pk_environment_builds")),
    )


def downgrade() -> None:
    """Takes the schema back to the revision before."""
    for table in ("environment_builds", "environment_packages", "environment_locks"):
        op.drop_table(table)
