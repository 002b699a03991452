"""Which workflows a caller may run and read (SPEC.md, API key, `workflow_access`)."""

import json
from dataclasses import dataclass
from typing import Final

from backend.keys import sql as keys_sql
from backend.storage.database import Tx


@dataclass(frozen=True, slots=True)
class Reach:
    """The workflows within reach: those of a fixed list, or all when `listed` is None.

    `active_only` holds for a key with `all_active`: it may neither start nor read a draft or inactive workflow, while
    a key with a list, and an internal service, may read it.
    """

    listed: frozenset[str] | None
    active_only: bool

    def holds(self, workflow_id: str) -> bool:
        """Whether the workflow is within reach, whatever its status."""
        return self.listed is None or workflow_id in self.listed


EVERYTHING: Final = Reach(listed=None, active_only=False)


def reach_of(tx: Tx, key_id: str | None) -> Reach:
    """The reach of a key; a key that is gone reaches nothing, and an internal caller everything."""
    if key_id is None:
        return EVERYTHING
    row = keys_sql.access(tx, key_id)
    if row is None:
        return Reach(listed=frozenset(), active_only=True)
    return read_reach(row.access_mode, row.access_workflow_ids)


def read_reach(mode: str | None, workflow_ids: str | None) -> Reach:
    """What a key's stored access says, the ids as JSON text; no mode is an internal caller's."""
    if mode is None:
        return EVERYTHING
    if mode == "all_active":
        return Reach(listed=None, active_only=True)
    return Reach(listed=frozenset(json.loads(workflow_ids or "[]")), active_only=False)
