"""Tables of the packages of environments: their locks, and where these are built."""

from sqlalchemy import BigInteger, Column, ForeignKey, Table, Text

from backend.storage.tables.metadata import METADATA
from backend.storage.tables.workflows import resources

# A lock never changes: its name is the digest of its text, which versions of environments hold.
environment_locks = Table(
    "environment_locks",
    METADATA,
    Column("digest", Text, primary_key=True),
    Column("lock", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    # When somebody last asked for a build; a failure before that is tried again at once.
    Column("requested_at", BigInteger, nullable=False),
    # When a machine first had it built; null until then.
    Column("built_at", BigInteger),
    # The top-level modules of its packages, a JSON list; null until it was built.
    Column("modules", Text),
)

# The lock of each environment's newest version, where it has packages: these are built ahead of their first step.
environment_packages = Table(
    "environment_packages",
    METADATA,
    Column("resource_id", Text, ForeignKey(resources.c.resource_id, ondelete="CASCADE"), primary_key=True),
    Column("digest", Text, ForeignKey(environment_locks.c.digest), nullable=False),
)

# What each machine has made of a lock.
environment_builds = Table(
    "environment_builds",
    METADATA,
    Column("digest", Text, ForeignKey(environment_locks.c.digest), primary_key=True),
    Column("machine", Text, primary_key=True),
    # `building`, `built` or `failed`.
    Column("state", Text, nullable=False),
    # Why it failed; empty otherwise.
    Column("message", Text, nullable=False),
    # Bytes of what is built.
    Column("size", BigInteger),
    Column("updated_at", BigInteger, nullable=False),
    # When the machine last reported; one that is gone reports no more.
    Column("seen_at", BigInteger, nullable=False),
    # The end of what uv said; null until it has ended.
    Column("log", Text),
)
