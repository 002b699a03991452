"""What uses a resource: workflows, and of their steps the agents, environments and connectors that go together."""

import json
from collections.abc import Iterator
from typing import NamedTuple

from backend.json_text import canonical
from backend.storage.database import Tx
from backend.workflows import definitions_sql, versions_sql
from backend.workflows.definitions_sql import UseRow
from backend.workflows.pins import PINNED_KINDS
from backend.workflows.readiness import Definition, ResourceKey, referred_resources


class Use(NamedTuple):
    """A workflow whose newest version uses a resource, and what its steps name together with it, each once."""

    row: UseRow
    agents: tuple[str, ...]
    environments: tuple[str, ...]
    connectors: tuple[str, ...]
    knowledge_graphs: tuple[str, ...]


def uses(tx: Tx, resource_id: str, key: ResourceKey, *, after: str, limit: int) -> list[Use]:
    """Returns workflows that use a resource, by name, that come after a name.

    Agents and environments are those that the version is pinned to (contract 23.11); connectors and knowledge graphs
    are not pinned: what counts is the name.
    """
    if key[0] in PINNED_KINDS:
        rows = definitions_sql.uses(tx, resource_id, after=after, limit=limit)
        return [_use(row, key, _definition(tx, row)) for row in rows]
    return [_use(row, key, definition) for row, definition in _naming(tx, key, after)][:limit]


def names_of_users(tx: Tx, key: ResourceKey) -> list[str]:
    """Returns the names of all workflows that name a resource, in order."""
    return [row.name for row, _ in _naming(tx, key, "")]


def _naming(tx: Tx, key: ResourceKey, after: str) -> Iterator[tuple[UseRow, Definition]]:
    # Of the definitions, which may have 8 MiB, those alone are read that have the name anywhere.
    for row in definitions_sql.mentioning(tx, canonical(key[1]), after=after):
        definition = _definition(tx, row)
        if key in referred_resources(definition):
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
        for step in definition["steps"]
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
