"""People of an identity provider, passkeys, and codes that stand in for them."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Brings the schema to this revision."""
    op.add_column("users", sa.Column("issuer", sa.Text(), nullable=True))
    op.add_column("users", sa.Column("subject", sa.Text(), nullable=True))
    op.create_index("ix_users_identity", "users", ["issuer", "subject"])
    op.create_table(
        "passkeys",
        sa.Column("credential_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("rp_id", sa.Text(), nullable=False),
        sa.Column("public_key", sa.Text(), nullable=False),
        sa.Column("sign_count", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("used_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["name"], ["users.name"], name=op.f("fk_passkeys_name_users"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("credential_id", name=op.f("pk_passkeys")),
    )
    op.create_index(op.f("ix_passkeys_name"), "passkeys", ["name"])
    op.create_table(
        "passkey_challenges",
        sa.Column("token_sha256", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("purpose", sa.Text(), nullable=False),
        sa.Column("challenge", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["name"], ["users.name"], name=op.f("fk_passkey_challenges_name_users"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("token_sha256", name=op.f("pk_passkey_challenges")),
    )
    op.create_index(op.f("ix_passkey_challenges_name"), "passkey_challenges", ["name"])
    op.create_index(op.f("ix_passkey_challenges_created_at"), "passkey_challenges", ["created_at"])
    op.create_table(
        "recovery_codes",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("code_sha256", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["name"], ["users.name"], name=op.f("fk_recovery_codes_name_users"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("name", "code_sha256", name=op.f("pk_recovery_codes")),
    )


def downgrade() -> None:
    """Takes the schema back to the revision before."""
    for table in ("recovery_codes", "passkey_challenges", "passkeys"):
        op.drop_table(table)
    op.drop_index("ix_users_identity", "users")
    with op.batch_alter_table("users") as batch_op:
        batch_op.drop_column("subject")
        batch_op.drop_column("issuer")
