"""Access of callers to workflows (contract 11.9)."""

import json
from dataclasses import dataclass
from typing import Final

from backend.keys import sql as keys_sql
from backend.storage.database import Tx


@dataclass(frozen=True, slots=True)
class WorkflowAccess:
    """The workflows that a caller may access: those of a fixed list, or all if `listed` is None.

    `active_only` is set for a key with `all_active`, which may neither start nor read a draft or inactive workflow.
    Keys with a list and internal services may read these.
    """

    listed: frozenset[str] | None
    active_only: bool

    def holds(self, workflow_id: str) -> bool:
        """Returns whether the caller has access to the workflow, whatever its status."""
        return self.listed is None or workflow_id in self.listed


EVERYTHING: Final = WorkflowAccess(listed=None, active_only=False)
_ALL_ACTIVE: Final = WorkflowAccess(listed=None, active_only=True)


def access_of(tx: Tx, key_id: str | None) -> WorkflowAccess:
    """Returns the access of a key: none for a key that does not exist, all for an internal caller."""
    if key_id is None:
        return EVERYTHING
    row = keys_sql.access(tx, key_id)
    if row is None:
        return WorkflowAccess(listed=frozenset(), active_only=True)
    return read_access(row.access_mode, row.access_workflow_ids)


def read_access(mode: str | None, workflow_ids: str | None) -> WorkflowAccess:
    """Parses the stored access of a key, with its ids as JSON text; without a mode it is an internal caller's."""
    if mode is None:
        return EVERYTHING
    if mode == "all_active":
        return _ALL_ACTIVE
    return WorkflowAccess(listed=frozenset(json.loads(workflow_ids or "[]")), active_only=False)
