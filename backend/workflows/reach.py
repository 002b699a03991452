"""Which workflows a caller may run and read (SPEC.md, API key, `workflow_access`)."""

import json
from dataclasses import dataclass
from typing import Final

from sqlalchemy import bindparam, select

from backend.keys.tables import api_keys
from backend.storage.database import Tx
from backend.storage.statements import sql

_ACCESS: Final = sql(
    select(api_keys.c.access_mode, api_keys.c.access_workflow_ids).where(api_keys.c.key_id == bindparam("key_id"))
)


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
    row = tx.one(_ACCESS, key_id=key_id)
    if row is None:
        return Reach(listed=frozenset(), active_only=True)
    if row.access_mode == "all_active":
        return Reach(listed=None, active_only=True)
    return Reach(listed=frozenset(json.loads(row.access_workflow_ids)), active_only=False)
