"""Which agents and environments a workflow version uses, for as long as it exists (DECISIONS.md, 3).

A version keeps the definitions that its agents and environments had when it was made. Connectors, knowledge graphs and
the status of environments stay live: they say what is open now, and an older version must not get around that.
"""

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from backend.storage.database import Tx
from backend.workflows import sql, versions_sql
from backend.workflows.readiness import Definition, Resource, ResourceKey, referred_resources
from backend.workflows.versions_sql import Pin, PinnedRow, Pins

PINNED_KINDS: Final = frozenset({"agent", "environment"})


class PresentPins:
    """The agents and environments that a workflow version made in this transaction uses."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self._present = versions_sql.present_pins(tx)
        self._equivalent: dict[tuple[Pin, Pin], bool] = {}

    def of(self, names: Iterable[ResourceKey], before: Pins) -> Pins:
        """The pins of these names; one of `before` stays where its resource still does the same."""
        return {name: self._pin(name, before.get(name)) for name in names}

    def _pin(self, name: ResourceKey, before: Pin | None) -> Pin:
        present = self._present.get(name, Pin(*name, None, None))
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
    """The agents and environments that a workflow's definition names."""
    return {name for name in referred_resources(definition) if name[0] in PINNED_KINDS}


def changed_pins(before: Pins, after: Pins) -> list[ResourceKey]:
    """The names that both versions use and that stand for something else in the later one, in order."""
    return sorted(name for name in before.keys() & after.keys() if before[name] != after[name])


def resources_of_version(tx: Tx, workflow_id: str, version: int, definition: Definition) -> dict[ResourceKey, Resource]:
    """What the names of a version's definition stand for; a name is absent where there is, or was, nothing of it."""
    live = sql.resources_of(tx, (name for name in referred_resources(definition) if name[0] != "agent"))
    found = {name: resource for name, resource in live.items() if name[0] not in PINNED_KINDS}
    for row in versions_sql.pinned_resources(tx, workflow_id, version):
        resource = _pinned_resource(row)
        if row.kind == "environment":
            status = live[row.kind, row.name].definition["status"]
            resource = replace(resource, definition={**resource.definition, "status": status})
        found[row.kind, row.name] = resource
    return found


def _pinned_resource(row: PinnedRow) -> Resource:
    return Resource(row.resource_id, row.version, json.loads(row.definition), size=len(row.definition))
