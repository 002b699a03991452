"""ListKnowledgeGraphs and QueryKnowledgeGraph. (docs/knowledge-graphs.md)"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from pyoxigraph import Literal, NamedNode, Triple
from sqlalchemy import insert

from backend.resources.graphs.graphs import graph_name
from backend.storage.database import Tx
from backend.storage.statements import Command
from backend.storage.tables.files import publications
from tests.services.calls import RefusedError
from tests.services.workflows.conftest import RESOURCES, Workflows
from tests.support.sparql_server import SparqlServer, sparql_server
from workflow_api.v1 import workflows_pb2

EVERY = "SELECT ?s ?o { ?s ?p ?o } ORDER BY ?o"


@pytest.fixture
def server() -> Iterator[SparqlServer]:
    with sparql_server() as server:
        yield server


def fill(workflows: Workflows, name: str, *values: str) -> None:
    row = workflows.resource("knowledge_graph", name)
    graph = workflows.graphs.get(row.resource_id, row.version, json.loads(row.definition))
    triples = [Triple(NamedNode("x:s"), NamedNode("x:p"), Literal(value)) for value in values]
    graph.replace(graph_name({}, "run_1"), triples)


def ask(workflows: Workflows, name: str, query: str, **fields: Any) -> list[Any]:
    request = workflows_pb2.QueryKnowledgeGraphRequest(name=name, query=query, **fields)
    return workflows.call.stream("QueryKnowledgeGraph", request).rest()


def test_graphs_are_listed_by_name_with_their_counts(workflows: Workflows) -> None:
    workflows.apply(RESOURCES, "kind: KnowledgeGraph\nname: archive\n")
    answer = workflows.call("ListKnowledgeGraphs", workflows_pb2.ListKnowledgeGraphsRequest())
    assert [(item.name, item.version, item.store, item.runs, item.pending) for item in answer.items] == [
        ("archive", 1, "folder", 0, 0),
        ("contracts", 1, "folder", 0, 0),
    ]


def test_a_query_is_answered_in_parts(workflows: Workflows) -> None:
    workflows.apply(RESOURCES)
    fill(workflows, "contracts", *(f"{n:03}" for n in range(450)))
    head, *parts = ask(workflows, "contracts", EVERY, limit=420)
    assert (head.form, head.variables) == ("select", ["s", "o"])
    rows = [json.loads(row) for part in parts for row in part.rows]
    assert [row["o"]["value"] for row in rows] == [f"{n:03}" for n in range(420)]
    assert [part.truncated for part in parts] == [False, False, True]


def test_a_sparql_store_is_queried_like_a_folder(workflows: Workflows, server: SparqlServer) -> None:
    urls = f"endpoint_url: {server.endpoint_url}\nupdate_url: {server.update_url}"
    workflows.apply(f"kind: KnowledgeGraph\nname: remote\nstore: sparql\n{urls}\n")
    fill(workflows, "remote", "a", "b")
    assert ask(workflows, "remote", "ASK { ?s ?p 'b' }")[0].boolean
    server.status = 503
    with pytest.raises(RefusedError) as refused:
        ask(workflows, "remote", EVERY)
    assert refused.value.reason == "runtime_error"
    assert refused.value.message == "The knowledge graph does not answer: the endpoint answered 503: out of order."


def test_without_the_optional_part_the_refusal_says_so_and_blames_no_field(
    workflows: Workflows, monkeypatch: pytest.MonkeyPatch
) -> None:
    workflows.apply(RESOURCES)
    monkeypatch.setattr("backend.common.optional_parts.can_import", lambda module: module != "pyoxigraph")
    with pytest.raises(RefusedError) as refused:
        ask(workflows, "contracts", EVERY)
    assert (refused.value.reason, refused.value.problems) == ("runtime_error", {})
    assert refused.value.message.startswith("The knowledge graph cannot be queried: the optional part 'graphs'")


@pytest.mark.parametrize(
    ("query", "fields", "problem"),
    [
        ("SELEC", {}, "it is not a SPARQL query"),
        ("SELECT * { SERVICE <x:y> {} }", {}, "SERVICE is not allowed"),
        (EVERY, {"limit": 0}, "must be an integer from 1 to 100"),
        (EVERY, {"timeout": Duration(seconds=301)}, "must be a whole number of seconds from 1 to 300"),
        (EVERY, {"timeout": Duration(nanos=500_000_000)}, "must be a whole number of seconds from 1 to 300"),
    ],
)
def test_a_query_that_cannot_be_evaluated_is_reported(
    workflows: Workflows, query: str, fields: dict[str, Any], problem: str
) -> None:
    workflows.apply(RESOURCES)
    with pytest.raises(RefusedError) as refused:
        ask(workflows, "contracts", query, **fields)
    assert refused.value.reason == "invalid_request"
    [reason] = refused.value.problems.values()
    assert reason.startswith(problem)


def test_a_graph_that_does_not_exist_is_not_found(workflows: Workflows) -> None:
    with pytest.raises(RefusedError) as refused:
        ask(workflows, "nowhere", EVERY)
    assert refused.value.reason == "not_found"


def test_the_newest_publications_of_a_graph_are_shown_with_their_runs(workflows: Workflows) -> None:
    workflows.apply(RESOURCES)
    graph_id = workflows.resource("knowledge_graph", "contracts").resource_id
    columns = {"graph_version": 1, "entry": "{}", "attempts": 0, "next_attempt_at": 0}
    unclaimed = {"claimed_by": None, "claimed_until": None}
    command = Command(insert(publications), [column.name for column in publications.columns])

    def work(tx: Tx) -> None:
        for n, state in enumerate(["kept", "failed", *["landed"] * 19]):
            tx.run(command, run_id=f"run_{n}", graph_id=graph_id, state=state, requested_at=n, **columns, **unclaimed)

    workflows.services.database.write(work)
    request = workflows_pb2.GetKnowledgeGraphPublicationsRequest(name="contracts")
    found = workflows.call("GetKnowledgeGraphPublications", request).items
    assert [each.run_id for each in found] == [f"run_{n}" for n in range(20, 0, -1)]
    assert {each.run_id: each.state for each in found}["run_1"] == "failed"
    assert found[0].state == "published"
