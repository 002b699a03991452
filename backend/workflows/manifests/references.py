"""References of workflows to agents, environments, connectors and knowledge graphs, by name."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from backend.workflows.manifests.nodes import Node


class Reference(NamedTuple):
    """A name in a workflow that another document bears: its kind, and the line and field where it is used."""

    kind: str
    name: str
    line: int
    field: str


def references(definition: Mapping[str, Any], node: Node) -> Iterator[Reference]:
    """Yields the references of a workflow's definition, as far as it could be read."""
    for index, step in _members(definition, "steps"):
        for kind in ("Agent", "Environment"):
            field = kind.lower()
            if step.get(field):
                yield _reference(kind, step[field], node, "steps", index, field)
        for position, name in enumerate(step.get("connectors") or ()):
            if name:
                yield _reference("Connector", name, node, "steps", index, "connectors", position)
    for index, parameter in _members(definition, "parameters"):
        if parameter.get("connector"):
            yield _reference("Connector", parameter["connector"], node, "parameters", index, "connector")
    for index, entry in _members(definition, "publish"):
        if entry.get("knowledge_graph"):
            yield _reference("KnowledgeGraph", entry["knowledge_graph"], node, "publish", index, "knowledge_graph")


def field_of(*path: str | int) -> str:
    """Returns a path as messages have it: `steps[0].needs`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def _reference(kind: str, name: str, node: Node, *path: str | int) -> Reference:
    return Reference(kind, name, node.line_of(*path), field_of(*path))


def _members(definition: Mapping[str, Any], name: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for index, one in enumerate(definition.get(name) or ()):
        if isinstance(one, dict):
            yield index, one
