"""How long the code of agents is kept that no version needs."""

from dataclasses import dataclass
from typing import Final

from backend.clock import DAY_MS
from backend.retention import RetentionRule
from backend.storage.database import Tx
from backend.workflows import sources_sql

_BATCH: Final = 300


@dataclass(frozen=True, slots=True)
class AgentSourceRetention:
    """Folders of agents that neither the newest version of an agent nor a version of a workflow uses, after a day."""

    name: str = "agent_sources"

    def delete_batch(self, tx: Tx, now: int) -> int:
        """Deletes some folders; see `RetentionRule.delete_batch`."""
        return sources_sql.delete_unneeded(tx, now - DAY_MS, _BATCH)


RULES: Final[tuple[RetentionRule, ...]] = (AgentSourceRetention(),)
