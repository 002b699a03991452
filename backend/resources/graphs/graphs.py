"""Registry of the knowledge graphs that this process has opened."""

import threading
from pathlib import Path
from typing import Final

from backend.common.json_text import JsonMapping
from backend.common.optional_parts import GRAPHS
from backend.common.secrets import Secrets
from backend.resources.graphs.folder import FolderGraph
from backend.resources.graphs.graph import Graph, GraphRefusedError

DEFAULT_BASE_IRI: Final = "urn:workflow-api:"


class Graphs:
    """Open graphs by id and version of their manifests; each graph with the store `folder` has a folder below `folder`.

    Without a `folder` such graphs are refused.
    """

    def __init__(self, folder: Path | None, secrets: Secrets) -> None:
        self._folder = folder
        self._secrets = secrets
        self._graphs: dict[tuple[str, int], Graph] = {}
        self._lock = threading.Lock()

    def get(self, graph_id: str, version: int, definition: JsonMapping) -> Graph:
        """Returns a graph, opened at the first call; `definition` is the manifest of this version.

        Raises:
            GraphRefusedError: the optional part is missing, or its store is `folder`, and this process has no folder
                for graphs.
        """
        if not GRAPHS.installed:
            raise GraphRefusedError(GRAPHS.not_installed)
        remote = definition.get("store") == "sparql"
        # All versions of a graph in a folder share one database.
        key = (graph_id, version if remote else 0)
        with self._lock:
            graph = self._graphs.get(key)
            if graph is None:
                graph = self._remote_graph(definition) if remote else self._folder_graph(graph_id)
                self._graphs[key] = graph
            return graph

    def _remote_graph(self, definition: JsonMapping) -> Graph:
        from backend.resources.graphs.sparql import SparqlGraph

        return SparqlGraph(definition, self._secrets)

    def _folder_graph(self, graph_id: str) -> Graph:
        if self._folder is None:
            raise GraphRefusedError("where workers execute runs, a graph must be behind a SPARQL endpoint")
        return FolderGraph(self._folder / graph_id)

    def close(self) -> None:
        """Closes every graph; work under way fails."""
        for graph in list(self._graphs.values()):
            graph.close()


def graph_name(definition: JsonMapping, run_id: str) -> str:
    """Returns the IRI of the named graph with the triples that a run published."""
    base = definition.get("base_iri") or DEFAULT_BASE_IRI
    return f"{base}run:{run_id}" if base.endswith(":") else f"{base}run/{run_id}"
