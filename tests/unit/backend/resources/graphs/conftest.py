from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.resources.graphs.folder import FolderGraph
from tests.support.sparql_server import SparqlServer, sparql_server


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[FolderGraph]:
    graph = FolderGraph(tmp_path / "graph")
    yield graph
    graph.close()


@pytest.fixture
def server() -> Iterator[SparqlServer]:
    with sparql_server() as server:
        yield server
