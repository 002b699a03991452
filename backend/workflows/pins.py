"""The agents and environments that a workflow version is pinned to (contract 23.11).

A version keeps the definitions that its agents and environments had when it was saved. Connectors, knowledge graphs and
the status of environments are not pinned: they grant access now, and an older version must not bypass a change.
"""

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from backend.environments import sql as environments
from backend.environments.lock import lock_digest
from backend.storage.database import Tx
from backend.workflows import resources_sql, versions_sql
from backend.workflows.readiness import Definition, Resource, ResourceKey, referred_resources
from backend.workflows.versions_sql import Pin, PinnedRow, Pins

PINNED_KINDS: Final = frozenset({"agent", "environment"})


class CurrentPins:
    """Pins for workflow versions that are saved in this transaction."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self._current = versions_sql.present_pins(tx)
        self._equivalent: dict[tuple[Pin, Pin], bool] = {}

    def pins_for(self, names: Iterable[ResourceKey], before: Pins) -> Pins:
        """Returns the pins of these names; keeps pins of `before` whose resources have not changed in effect."""
        return {name: self._pin(name, before.get(name)) for name in names}

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
    """Returns the names that both versions use with different pins, in order."""
    return sorted(name for name in before.keys() & after.keys() if before[name] != after[name])


def resources_of_version(tx: Tx, workflow_id: str, version: int, definition: Definition) -> dict[ResourceKey, Resource]:
    """Returns the resources that a version's definition names, by name, without those that do not exist."""
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
