"""Which workflows a caller may run and read (SPEC.md, API key, `workflow_access`)."""

import json
from dataclasses import dataclass
from typing import Final

from backend.keys import sql as keys_sql
from backend.storage.database import Tx


@dataclass(frozen=True, slots=True)
class WorkflowAccess:
    """The workflows within reach: those of a fixed list, or all when `listed` is None.

    `active_only` holds for a key with `all_active`: it may neither start nor read a draft or inactive workflow, while
    a key with a list, and an internal service, may read it.
    """

    listed: frozenset[str] | None
    active_only: bool

    def holds(self, workflow_id: str) -> bool:
        """Whether the workflow is within reach, whatever its status."""
        return self.listed is None or workflow_id in self.listed


EVERYTHING: Final = WorkflowAccess(listed=None, active_only=False)


def access_of(tx: Tx, key_id: str | None) -> WorkflowAccess:
    """The reach of a key; a key that is gone reaches nothing, and an internal caller everything."""
    if key_id is None:
        return EVERYTHING
    row = keys_sql.access(tx, key_id)
    if row is None:
        return WorkflowAccess(listed=frozenset(), active_only=True)
    return read_access(row.access_mode, row.access_workflow_ids)


def read_access(mode: str | None, workflow_ids: str | None) -> WorkflowAccess:
    """What a key's stored access says, the ids as JSON text; no mode is an internal caller's."""
    if mode is None:
        return EVERYTHING
    if mode == "all_active":
        return WorkflowAccess(listed=None, active_only=True)
    return WorkflowAccess(listed=frozenset(json.loads(workflow_ids or "[]")), active_only=False)
