"""Uses of resources: pins of workflow versions to agents and environments, and the workflows that use a resource."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from backend.common.json_text import canonical
from backend.resources.environments import sql as environments
from backend.resources.environments.lock import lock_digest
from backend.services.workflows import definitions_sql, resources_sql, versions_sql
from backend.services.workflows.agent_tools import agent_tools
from backend.services.workflows.definitions_sql import UseRow
from backend.services.workflows.rules import (
    Definition,
    Resource,
    ResourceKey,
    all_steps,
    child_workflows,
    referred_resources,
)
from backend.services.workflows.versions_sql import Pin, PinnedRow, Pins
from backend.storage.database import Tx

PINNED_KINDS: Final = frozenset({"agent", "environment"})


class CurrentPins:
    """Chooses the pins of workflow versions that this transaction saves."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self._current = versions_sql.present_pins(tx)
        self._equivalent: dict[tuple[Pin, Pin], bool] = {}
        self._tools: dict[Pin, list[str]] = {}

    def pins_for(self, names: Iterable[ResourceKey], before: Pins) -> Pins:
        """Returns pins for names; keeps a pin of `before` unless its resource has changed, beyond its status."""
        return {name: self._pin(name, before.get(name)) for name in names}

    def with_tools(self, pins: Pins, before: Pins) -> Pins:
        """Returns pins, and those of the agents that they have as tools; keeps pins of `before` as `pins_for`."""
        return self.pins_for(self._tools_of(pins), before) | pins

    def has_tools(self, pins: Pins) -> bool:
        """Returns whether an agent among the pins has another agent as a tool."""
        return bool(self._tools_of(pins))

    def _tools_of(self, pins: Pins) -> set[ResourceKey]:
        return {("agent", name) for pin in pins.values() for name in self._tools_of_agent(pin)}

    def _tools_of_agent(self, pin: Pin) -> list[str]:
        if pin.kind != "agent" or pin.version is None:
            return []
        if pin not in self._tools:
            text = versions_sql.definition_with_tools(self._tx, pin)
            self._tools[pin] = [] if text is None else agent_tools(json.loads(text))
        return self._tools[pin]

    def _pin(self, name: ResourceKey, before: Pin | None) -> Pin:
        present = self._current.get(name, Pin(*name, None, None))
        return before if before is not None and self._same(before, present) else present

    def _same(self, before: Pin, present: Pin) -> bool:
        if before == present:
            return True
        if before.kind != "environment" or before.version is None or present.version is None:
            return False
        both = before, present
        if both not in self._equivalent:
            one, other = (json.loads(versions_sql.resource_definition(self._tx, pin)) for pin in both)
            self._equivalent[both] = {**one, "status": None} == {**other, "status": None}
        return self._equivalent[both]


def pinned_names(definition: Definition) -> set[ResourceKey]:
    """Returns the agents and environments that a workflow's definition names."""
    return {name for name in referred_resources(definition) if name[0] in PINNED_KINDS}


def changed_pins(before: Pins, after: Pins) -> list[ResourceKey]:
    """Returns the names whose pins differ between both versions, in order."""
    return sorted(name for name in before.keys() & after.keys() if before[name] != after[name])


def resources_of_version(tx: Tx, workflow_id: str, version: int, definition: Definition) -> dict[ResourceKey, Resource]:
    """Returns the existing resources that a version's definition names, by kind and name."""
    live = resources_sql.resources_of(tx, (name for name in referred_resources(definition) if name[0] != "agent"))
    found = {name: resource for name, resource in live.items() if name[0] not in PINNED_KINDS}
    for row in versions_sql.pinned_resources(tx, workflow_id, version):
        resource = _pinned_resource(row)
        if row.kind == "environment":
            now = live.get((row.kind, row.name))
            status = "deleted" if now is None else now.definition["status"]
            digest = lock_digest(resource.definition)
            packages = None if digest is None else environments.package_state(tx, digest)
            resource = replace(resource, definition={**resource.definition, "status": status}, packages=packages)
        found[row.kind, row.name] = resource
    return found


def _pinned_resource(row: PinnedRow) -> Resource:
    return Resource(row.resource_id, row.version, json.loads(row.definition), size=len(row.definition))


class Use(NamedTuple):
    """A workflow whose newest version uses a resource, and the distinct other resources of the steps that use it."""

    row: UseRow
    agents: tuple[str, ...]
    environments: tuple[str, ...]
    connectors: tuple[str, ...]
    knowledge_graphs: tuple[str, ...]


def uses(tx: Tx, resource_id: str, key: ResourceKey, *, after: str, limit: int) -> list[Use]:
    """Returns a page of workflows that use a resource or start a workflow as a step, by name after `after`.

    Uses of agents and environments are pins (contract 23.11); uses of connectors, knowledge graphs and workflows are
    names in the definition.
    """
    if key[0] in PINNED_KINDS:
        rows = definitions_sql.uses(tx, resource_id, after=after, limit=limit)
        return [_use(row, key, _definition(tx, row)) for row in rows]
    return [_use(row, key, definition) for row, definition in _naming(tx, key, after)][:limit]


def named_definitions(definition: Definition) -> set[ResourceKey]:
    """Returns the resources that a definition names, and the workflows that its steps start."""
    return {*referred_resources(definition), *(("workflow", name) for name in child_workflows(definition))}


def dependent_workflow_names(tx: Tx, key: ResourceKey) -> list[str]:
    """Returns the names of all workflows that name a resource, or start a workflow, in order."""
    return [row.name for row, _ in _naming(tx, key, "")]


def _naming(tx: Tx, key: ResourceKey, after: str) -> Iterator[tuple[UseRow, Definition]]:
    # Only definitions, which may have 8 MiB, that contain the name anywhere are read.
    for row in definitions_sql.mentioning(tx, canonical(key[1]), after=after):
        definition = _definition(tx, row)
        if key in named_definitions(definition):
            yield row, definition


def _definition(tx: Tx, row: UseRow) -> Definition:
    definition: Definition = json.loads(
        versions_sql.definition_text(tx, row.workflow_id, row.workflow_version) or "null"
    )
    return definition


def _use(row: UseRow, key: ResourceKey, definition: Definition) -> Use:
    kind, name = key
    together = [
        step
        for step in all_steps(definition)
        if name == step.get(kind) or (kind == "connector" and name in step["connectors"])
    ]

    def others(of_kind: str) -> tuple[str, ...]:
        named = (step[of_kind] for step in together if step[of_kind] is not None)
        return () if kind == of_kind else tuple(dict.fromkeys(named))

    connectors = dict.fromkeys(each for step in together for each in step["connectors"])
    graphs = dict.fromkeys(entry["knowledge_graph"] for entry in definition["publish"])
    return Use(
        row,
        agents=others("agent"),
        environments=others("environment"),
        connectors=() if kind == "connector" else tuple(connectors),
        knowledge_graphs=() if kind == "knowledge_graph" else tuple(graphs),
    )
