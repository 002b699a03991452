"""What a version of a workflow refers to by name, with where its pages are."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from console.definitions.kinds import AGENT, CONNECTOR, ENVIRONMENT, GRAPH
from console.visit import ADMINISTRATORS, ONLOOKERS, Visit
from workflow_api.v1.workflows_pb2 import VersionResource

_PAGES: Final = {
    AGENT.kind: (AGENT, ONLOOKERS),
    ENVIRONMENT.kind: (ENVIRONMENT, ADMINISTRATORS),
    CONNECTOR.kind: (CONNECTOR, ADMINISTRATORS),
    GRAPH.kind: (GRAPH, ADMINISTRATORS),
}


class Reference(NamedTuple):
    """Something by its kind and name.

    Attributes:
        path: Its page; empty where the person may not see that, or there is none.
        version: The version that is used; "newest" of what is not pinned, empty where nothing had the name.
    """

    kind: str
    name: str
    path: str
    version: str


def references(visit: Visit, definition: Mapping[str, Any], pinned: Sequence[VersionResource]) -> list[Reference]:
    """Returns the agents and environments that a version is pinned to, then its connectors and knowledge graphs."""
    found = []
    for each in pinned:
        version = str(each.version) if each.HasField("version") else ""
        query = f"?version={version}"
        path = _path(visit, each.kind, each.id) + query if version and _path(visit, each.kind, each.id) else ""
        found.append(Reference(each.kind, each.name, path, version))
    named = dict.fromkeys((*_connectors(definition), *_graphs(definition)))
    return found + [Reference(kind, name, _path(visit, kind, name), "newest") for kind, name in named]


def _connectors(definition: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for step in definition.get("steps") or ():
        yield from ((CONNECTOR.kind, name) for name in step.get("connectors") or ())
    for parameter in definition.get("parameters") or ():
        if parameter.get("connector"):
            yield CONNECTOR.kind, parameter["connector"]


def _graphs(definition: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for entry in definition.get("publish") or ():
        yield GRAPH.kind, entry["knowledge_graph"]


def _path(visit: Visit, kind: str, id_or_name: str) -> str:
    definition, readers = _PAGES[kind]
    return definition.page_of(id_or_name) if visit.user.role in readers else ""
