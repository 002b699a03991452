"""Tables of the people who sign in to the console."""

from typing import NamedTuple

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, Table, Text

from backend.storage.tables.metadata import METADATA

users = Table(
    "users",
    METADATA,
    Column("name", Text, primary_key=True),
    # `administrator`, `operator`, `approver` or `viewer`.
    Column("role", Text, nullable=False),
    # Argon2id with its parameters and salt, in the PHC string format.
    Column("password_hash", Text, nullable=False),
    # Set while the password is the one that an administrator handed out.
    Column("password_is_temporary", Integer, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("signed_in_at", BigInteger),
    Column("disabled_at", BigInteger),
    # The workflows that an approver decides for, as a JSON array; null for all.
    Column("workflow_ids", Text),
    # Identity at the provider; null for people who sign in with a password.
    Column("issuer", Text),
    Column("subject", Text),
    # How pages are shown, as JSON; null for the defaults.
    Column("preferences", Text),
    # Saved views, as a JSON array of [name, address]; null for none.
    Column("views", Text),
    # Of one person each: all changes of people hold one lock.
    Index("ix_users_identity", "issuer", "subject"),
)


class UserRow(NamedTuple):
    """A person who may sign in to the console."""

    name: str
    role: str
    password_hash: str
    password_is_temporary: int
    created_at: int
    signed_in_at: int | None
    disabled_at: int | None
    workflow_ids: str | None
    issuer: str | None = None
    subject: str | None = None
    preferences: str | None = None
    views: str | None = None


sessions = Table(
    "sessions",
    METADATA,
    Column("token_sha256", Text, primary_key=True),
    Column("name", Text, ForeignKey(users.c.name, ondelete="CASCADE"), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("used_at", BigInteger, nullable=False),
    Index(None, "name"),
    Index(None, "created_at"),
)

passkeys = Table(
    "passkeys",
    METADATA,
    # Base64url without padding, as the public key.
    Column("credential_id", Text, primary_key=True),
    Column("name", Text, ForeignKey(users.c.name, ondelete="CASCADE"), nullable=False),
    Column("label", Text, nullable=False),
    # The host that the passkey was made for, the only one at which it works.
    Column("rp_id", Text, nullable=False),
    Column("public_key", Text, nullable=False),
    Column("sign_count", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("used_at", BigInteger),
    Index(None, "name"),
)


class PasskeyRow(NamedTuple):
    """A passkey of a person."""

    credential_id: str
    name: str
    label: str
    rp_id: str
    public_key: str
    sign_count: int
    created_at: int
    used_at: int | None


# Challenges that browsers were asked to sign, by token: of a session, or of a sign-in whose password was right.
passkey_challenges = Table(
    "passkey_challenges",
    METADATA,
    Column("token_sha256", Text, primary_key=True),
    Column("name", Text, ForeignKey(users.c.name, ondelete="CASCADE"), nullable=False),
    # `sign_in`, `register` or `confirm`.
    Column("purpose", Text, nullable=False),
    # Base64url; null once it was answered.
    Column("challenge", Text),
    Column("created_at", BigInteger, nullable=False),
    Index(None, "name"),
    Index(None, "created_at"),
)


class ChallengeRow(NamedTuple):
    """A challenge, and the person who is to answer it."""

    token_sha256: str
    name: str
    purpose: str
    challenge: str | None
    created_at: int


# Codes that stand in for a passkey, each once.
recovery_codes = Table(
    "recovery_codes",
    METADATA,
    Column("name", Text, ForeignKey(users.c.name, ondelete="CASCADE"), primary_key=True),
    Column("code_sha256", Text, primary_key=True),
    Column("created_at", BigInteger, nullable=False),
)

# Failed sign-ins by subject: a name from an address, an address, a name.
sign_in_tries = Table(
    "sign_in_tries",
    METADATA,
    # The column's name is from when only names were counted; processes of the release before still use it.
    Column("name_sha256", Text, key="subject_sha256", primary_key=True),
    # Failures in succession.
    Column("tries", Integer, nullable=False),
    Column("last_at", BigInteger, nullable=False),
    # Time until which further sign-ins are refused; 0 for none.
    Column("waits_until", BigInteger, nullable=False),
    # When the failures were last recorded in the audit trail; 0 for never.
    Column("audited_at", BigInteger, nullable=False),
    Index(None, "last_at"),
)


class TriesRow(NamedTuple):
    """The failed sign-ins of one subject."""

    subject_sha256: str
    tries: int
    last_at: int
    waits_until: int
    audited_at: int
