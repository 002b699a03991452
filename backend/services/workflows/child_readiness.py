"""Readiness of child workflows: why a version cannot run because of a workflow that its steps name."""

import json
from collections.abc import Iterator
from typing import TypeAlias

from backend.common.deployment_terms import Capabilities
from backend.common.json_text import JsonMapping
from backend.services.workflows import sql
from backend.services.workflows.rules import MOST_DEPTH, Definition, readiness
from backend.services.workflows.uses import resources_of_version
from backend.services.workflows.versions_sql import definition_text
from backend.storage.database import Tx
from backend.storage.tables.workflows import WorkflowRow

Versions: TypeAlias = tuple[tuple[str, int], ...]
"""Workflow versions, as id and number, each started by the one before it."""


class ChildReadiness:
    """Computes the reasons of one version, in one transaction. Workflows that start each other are not ready."""

    def __init__(self, tx: Tx, capabilities: Capabilities) -> None:
        self._tx = tx
        self._capabilities = capabilities
        # By workflow, version and depth, because nesting that is too deep depends on the depth.
        self._known: dict[tuple[str, int, int], list[str]] = {}

    def reasons(self, workflow_id: str, version: int, definition: Definition) -> list[str]:
        """Returns the reasons, for a person, why child workflows keep a version from running."""
        return list(self._reasons(definition, ((workflow_id, version),)))

    def _reasons(self, definition: Definition, above: Versions) -> Iterator[str]:
        for step in definition["steps"]:
            if step.get("workflow") is not None and (reason := self._reason(step, above)) is not None:
                yield reason

    def _reason(self, step: JsonMapping, above: Versions) -> str | None:
        name, handle = step["workflow"], step["step"]
        row = sql.get_by_name(self._tx, name)
        if row is None:
            return f"Step '{handle}' names the workflow '{name}', which does not exist."
        named = f"Workflow '{name}' of step '{handle}'"
        if row.status != "active":
            return f"{named} is not active."
        version = step.get("version") or row.active_version or row.newest_version
        if (row.workflow_id, version) in above:
            return f"{named} would start itself for ever."
        if len(above) > MOST_DEPTH:
            return f"{named} would be started more than {MOST_DEPTH} deep."
        text = definition_text(self._tx, row.workflow_id, version)
        if text is None:
            return f"{named} has no version {version}."
        found = self._reasons_of(row, version, text, above)
        return f"{named} is not ready: {found[0]}" if found else None

    def _reasons_of(self, row: WorkflowRow, version: int, text: str, above: Versions) -> list[str]:
        key = row.workflow_id, version, len(above)
        if key not in self._known:
            definition = json.loads(text)
            resources = resources_of_version(self._tx, row.workflow_id, version, definition)
            below = list(self._reasons(definition, (*above, (row.workflow_id, version))))
            self._known[key] = readiness(definition, resources, row.status, self._capabilities, below)
        return self._known[key]
