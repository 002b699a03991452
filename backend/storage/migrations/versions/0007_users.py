"""People who sign in to the console, with their sessions and failed sign-ins."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Brings the schema to this revision."""
    op.create_table(
        "users",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("password_hash", sa.Text(), nullable=False),
        sa.Column("password_is_temporary", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("signed_in_at", sa.BigInteger(), nullable=True),
        sa.Column("disabled_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_users")),
    )
    op.create_table(
        "sessions",
        sa.Column("token_sha256", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("used_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["name"], ["users.name"], name=op.f("fk_sessions_name_users"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("token_sha256", name=op.f("pk_sessions")),
    )
    op.create_index(op.f("ix_sessions_name"), "sessions", ["name"])
    op.create_index(op.f("ix_sessions_created_at"), "sessions", ["created_at"])
    op.create_table(
        "sign_in_tries",
        sa.Column("name_sha256", sa.Text(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("last_at", sa.BigInteger(), nullable=False),
        sa.Column("waits_until", sa.BigInteger(), nullable=False),
        sa.Column("audited_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name_sha256", name=op.f("pk_sign_in_tries")),
    )
    op.create_index(op.f("ix_sign_in_tries_last_at"), "sign_in_tries", ["last_at"])


def downgrade() -> None:
    """Takes the schema back to the revision before."""
    op.drop_table("sign_in_tries")
    op.drop_table("sessions")
    op.drop_table("users")
