"""Tables of workflows and of the resources that their steps use."""

from typing import NamedTuple

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    UniqueConstraint,
)

from backend.storage.tables.metadata import METADATA

workflows = Table(
    "workflows",
    METADATA,
    Column("workflow_id", Text, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("name_folded", Text, nullable=False),
    Column("description", Text, nullable=False),
    # `draft`, `active` or `inactive`.
    Column("status", Text, nullable=False),
    # Null before the first activation.
    Column("active_version", Integer),
    Column("newest_version", Integer, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    # Null unless it was deleted. Its name then ends with a line break and its id, which frees it for another workflow,
    # and the row stays as long as a run names one of its versions.
    Column("deleted_at", BigInteger),
    # Name of the set that owns it; null if none does.
    Column("owner_set", Text),
    Index(None, "name", "workflow_id"),
)


class WorkflowRow(NamedTuple):
    """A workflow."""

    workflow_id: str
    name: str
    name_folded: str
    description: str
    status: str
    active_version: int | None
    newest_version: int
    created_at: int
    updated_at: int
    deleted_at: int | None = None
    owner_set: str | None = None


workflow_versions = Table(
    "workflow_versions",
    METADATA,
    Column("workflow_id", Text, ForeignKey(workflows.c.workflow_id, ondelete="CASCADE"), primary_key=True),
    Column("version", Integer, primary_key=True),
    # The manifest with its defaults, as canonical JSON; empty where another version has it.
    Column("definition", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    # The version that has the definition, if another one: only an agent or environment changed since.
    Column("definition_version", Integer),
    # Values of the variables of the definition, a JSON object of texts; null where it uses none, or where
    # another version has the definition.
    Column("variables", Text),
)

# Agents, connectors, environments and knowledge graphs, as they are now.
resources = Table(
    "resources",
    METADATA,
    Column("resource_id", Text, primary_key=True),
    # `agent`, `connector`, `environment` or `knowledge_graph`; after `deleted_` if it was deleted. Its name then ends
    # with a line break and its id, and the row stays as long as a version of a workflow or a publication names it.
    Column("kind", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("definition", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    # Name of the set that owns it; null if none does.
    Column("owner_set", Text),
    UniqueConstraint("kind", "name"),
)

resource_versions = Table(
    "resource_versions",
    METADATA,
    Column("resource_id", Text, ForeignKey(resources.c.resource_id, ondelete="CASCADE"), primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("definition", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    # Key in `agent_sources` of an agent whose code is a folder.
    Column("source_digest", Text, index=True),
    # Values of the variables of the definition, a JSON object of texts; null where it uses none.
    Column("variables", Text),
)

# Folders with the code of agents, each stored once for all versions that have it.
agent_sources = Table(
    "agent_sources",
    METADATA,
    # SHA-256 of the files with their paths.
    Column("digest", Text, primary_key=True),
    # A zip.
    Column("archive", LargeBinary, nullable=False),
    Column("applied_at", BigInteger, nullable=False, index=True),
)

# The agents and environments that a workflow version uses, each at the version that was newest at that time.
workflow_version_resources = Table(
    "workflow_version_resources",
    METADATA,
    Column("workflow_id", Text, primary_key=True),
    Column("version", Integer, primary_key=True),
    # `agent` or `environment`.
    Column("kind", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    # Null where no agent or environment of this name existed.
    Column("resource_id", Text),
    Column("resource_version", Integer),
    ForeignKeyConstraint(
        ["workflow_id", "version"],
        [workflow_versions.c.workflow_id, workflow_versions.c.version],
        ondelete="CASCADE",
    ),
    # Without a cascade: a resource that a workflow version uses cannot be removed.
    ForeignKeyConstraint(
        ["resource_id", "resource_version"], [resource_versions.c.resource_id, resource_versions.c.version]
    ),
)

# The last test of each version of a connector.
connector_tests = Table(
    "connector_tests",
    METADATA,
    Column("connector_id", Text, ForeignKey(resources.c.resource_id, ondelete="CASCADE"), primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("passed", Integer, nullable=False),
    Column("message", Text, nullable=False),
    Column("tested_at", BigInteger, nullable=False),
)

# One row: rises with every change of a workflow, a resource or a connector test, so that readiness can be cached.
resource_revision = Table(
    "resource_revision",
    METADATA,
    Column("only", Integer, primary_key=True),
    Column("revision", BigInteger, nullable=False),
)


# A lock never changes: its name is the digest of its text, which versions of environments hold.
environment_locks = Table(
    "environment_locks",
    METADATA,
    Column("digest", Text, primary_key=True),
    Column("lock", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    # Time of the last request to build; a build that failed before is tried again at once.
    Column("requested_at", BigInteger, nullable=False),
    # When the lock was first built on any machine; null until then.
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

# Builds of each lock on each machine.
environment_builds = Table(
    "environment_builds",
    METADATA,
    Column("digest", Text, ForeignKey(environment_locks.c.digest), primary_key=True),
    Column("machine", Text, primary_key=True),
    # `building`, `built` or `failed`.
    Column("state", Text, nullable=False),
    # Reason of a failure; else empty.
    Column("message", Text, nullable=False),
    # Bytes of the build.
    Column("size", BigInteger),
    Column("updated_at", BigInteger, nullable=False),
    # When the machine last reported; a machine that is gone reports no more.
    Column("seen_at", BigInteger, nullable=False),
    # The end of uv's output; null until uv has ended.
    Column("log", Text),
)
