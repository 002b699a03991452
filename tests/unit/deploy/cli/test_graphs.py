"""`workflow-api graphs`."""

from google.protobuf.duration_pb2 import Duration

from tests.unit.deploy.fake_backend import FakeBackend, command
from workflow_api.v1 import workflows_pb2

Answer = workflows_pb2.KnowledgeGraphAnswer

ROW = '{"s": {"type": "uri", "value": "x:s"}}'


def query(
    backend: FakeBackend, *parts: workflows_pb2.KnowledgeGraphAnswer, options: tuple[str, ...] = ()
) -> tuple[object, str]:
    arguments = ("graphs", "query", "contracts", "SPARQL", *options, "--grpc", backend.address)
    backend.answers["QueryKnowledgeGraph"] = list(parts)
    as_json = command(*arguments, "--json").json
    backend.answers["QueryKnowledgeGraph"] = list(parts)
    return as_json, command(*arguments).out


def test_graphs_are_listed(backend: FakeBackend) -> None:
    graph = workflows_pb2.KnowledgeGraph(graph_id="kg_1", name="contracts", store="folder", version=2, runs=3)
    backend.answers["ListKnowledgeGraphs"] = workflows_pb2.ListKnowledgeGraphsResponse(items=[graph])
    assert command("graphs", "list", "--grpc", backend.address, "--json").json["items"][0]["runs"] == 3
    shown = command("graphs", "list", "--grpc", backend.address).out.splitlines()
    assert shown[1].split() == ["kg_1", "contracts", "folder", "2", "3", "0"]


def test_rows_are_a_table_and_sparql_results(backend: FakeBackend) -> None:
    parts = (Answer(form="select", variables=["s", "none"]), Answer(rows=[ROW]), Answer(rows=[ROW], truncated=True))
    as_json, table = query(backend, *parts, options=("--limit", "2", "--timeout", "5"))
    row = {"s": {"type": "uri", "value": "x:s"}}
    assert as_json == {
        "head": {"vars": ["s", "none"]},
        "results": {"bindings": [row, row]},
        "truncated": True,
    }
    assert [line.split() for line in table.splitlines()] == [["s", "none"], ["x:s", "-"], ["x:s", "-"]]
    sent = workflows_pb2.QueryKnowledgeGraphRequest(
        name="contracts", query="SPARQL", limit=2, timeout=Duration(seconds=5)
    )
    assert backend.requests[0][1] == sent


def test_an_ask_query_is_answered_yes_or_no(backend: FakeBackend) -> None:
    parts = (Answer(form="ask", boolean=True),)
    assert query(backend, *parts) == ({"head": {}, "boolean": True, "truncated": False}, "yes\n")


def test_triples_are_lines(backend: FakeBackend) -> None:
    parts = (Answer(form="construct"), Answer(triples=["<x:a> <x:b> <x:c> ."]))
    assert query(backend, *parts) == ({"triples": ["<x:a> <x:b> <x:c> ."], "truncated": False}, "<x:a> <x:b> <x:c> .\n")
