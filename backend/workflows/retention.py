"""How long deleted definitions, the code of agents and the locks of environments are kept that nothing needs."""

from dataclasses import dataclass
from typing import Final

from backend.clock import DAY_MS
from backend.environments import sql as environments
from backend.retention import RetentionRule
from backend.storage.database import Tx
from backend.workflows import deletion_sql, environments_sql, sources_sql

_BATCH: Final = 300


@dataclass(frozen=True, slots=True)
class AgentSourceRetention:
    """Folders of agents that neither the newest version of an agent nor a version of a workflow uses, after a day."""

    name: str = "agent_sources"
    kept_ms: int = DAY_MS

    def delete_batch(self, tx: Tx, now: int) -> int:
        """Deletes some folders; see `RetentionRule.delete_batch`."""
        return sources_sql.delete_unneeded(tx, now - self.kept_ms, _BATCH)


@dataclass(frozen=True, slots=True)
class LockRetention:
    """Locks that neither the newest version of an environment nor a version of a workflow uses, after a day."""

    name: str = "environment_locks"
    kept_ms: int = DAY_MS

    def delete_batch(self, tx: Tx, now: int) -> int:
        """Deletes some locks; see `RetentionRule.delete_batch`."""
        return environments.remove_unneeded(tx, environments_sql.kept_locks(tx), now - self.kept_ms, _BATCH)


@dataclass(frozen=True, slots=True)
class DeletedDefinitionRetention:
    """Deleted definitions of which neither a run, a version of a workflow nor a publication names a version."""

    name: str = "deleted_definitions"
    kept_ms: int = DAY_MS

    def delete_batch(self, tx: Tx, now: int) -> int:
        """Removes some deleted definitions; see `RetentionRule.delete_batch`."""
        return deletion_sql.remove_unnamed(tx, now - self.kept_ms, _BATCH)


# What a deleted definition had of its own is needed no more once that is removed.
RULES: Final[tuple[RetentionRule, ...]] = (DeletedDefinitionRetention(), AgentSourceRetention(), LockRetention())
