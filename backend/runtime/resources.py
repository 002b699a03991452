"""The agents, environments and connectors of a workflow, as they are when a segment begins."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from backend.runtime import store
from backend.runtime.definition import Definition, StepDefinition
from backend.runtime.sandbox import Limits
from backend.storage.database import Tx

# A step that names no environment gets what an environment has by default (SPEC.md, Workflow and resource limits).
DEFAULT_LIMITS: Final = Limits(memory_mb=2048, timeout_seconds=900, workspace_mb=512)


@dataclass(frozen=True, slots=True)
class Resources:
    """Definitions by name."""

    agents: Mapping[str, Mapping[str, Any]]
    environments: Mapping[str, Mapping[str, Any]]
    connectors: Mapping[str, Mapping[str, Any]]
    connector_ids: Mapping[str, str]

    def limits_of(self, step: StepDefinition) -> Limits:
        """What the step's environment allows."""
        environment = self.environments.get(step.environment or "")
        if environment is None:
            return DEFAULT_LIMITS
        return Limits(environment["memory_mb"], environment["timeout_seconds"], environment["workspace_mb"])

    def connectors_of(self, step: StepDefinition) -> Mapping[str, Mapping[str, Any]]:
        """The connectors that the step may ask for."""
        return {name: self.connectors[name] for name in step.connectors if name in self.connectors}


def load_resources(tx: Tx, definition: Definition) -> Resources:
    """Reads what the definition names; what does not exist is left out."""
    agents = {step.agent for step in definition.steps if step.agent is not None}
    environments = {step.environment for step in definition.steps if step.environment is not None}
    connectors = {name for step in definition.steps for name in step.connectors}
    connectors |= {declared.connector for declared in definition.inputs}
    found = {name: store.resource(tx, "connector", name) for name in connectors}
    return Resources(
        agents=_by_name(tx, "agent", agents),
        environments=_by_name(tx, "environment", environments),
        connectors={name: orjson.loads(row.definition) for name, row in found.items() if row is not None},
        connector_ids={name: row.resource_id for name, row in found.items() if row is not None},
    )


def _by_name(tx: Tx, kind: str, names: set[str]) -> dict[str, Any]:
    rows = {name: store.resource(tx, kind, name) for name in names}
    return {name: orjson.loads(row.definition) for name, row in rows.items() if row is not None}
