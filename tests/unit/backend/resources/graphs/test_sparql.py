"""A graph behind a SPARQL endpoint, with a server that evaluates queries."""

import io
import socket
import threading
import tracemalloc
from contextlib import suppress
from typing import Any

import pytest
from pyoxigraph import BlankNode, Literal, NamedNode, Triple

from backend.common.secrets import Secrets
from backend.resources.graphs.graph import Bounds, GraphRefusedError, GraphUnavailableError, ResultPart
from backend.resources.graphs.sparql import SparqlGraph
from tests.support.sparql_server import SparqlServer

RUN = "https://graph.example.org/run/run_1"
AWKWARD = Literal('\\u0041 "quoted" \n\r\t\x07 \\ é 😀 \\U0001F600')


SECRETS = Secrets({"token": "env:TOKEN", "login": "env:LOGIN"}, {"TOKEN": "abc", "LOGIN": "ann:pass"})


def graph_at(server: SparqlServer, **fields: Any) -> SparqlGraph:
    definition = {
        "endpoint_url": server.endpoint_url,
        "update_url": server.update_url,
        "secret": None,
        "auth": "bearer",
    }
    return SparqlGraph(definition | fields, SECRETS)


def some(*values: str) -> list[Triple]:
    return [Triple(NamedNode("x:s"), NamedNode("x:p"), Literal(value)) for value in values]


def test_a_named_graph_is_replaced_and_removed_as_a_whole(server: SparqlServer) -> None:
    graph = graph_at(server)
    for _ in range(2):
        assert graph.replace(RUN, [*some("a", "b"), Triple(BlankNode("n"), NamedNode("x:p"), AWKWARD)]) == 3
    assert len(server.store) == 3
    assert AWKWARD in {quad.object for quad in server.store}
    assert server.graphs() == {RUN}
    graph.replace(RUN, some("c"))
    assert len(server.store) == 1
    graph.remove(RUN)
    graph.remove(RUN)
    assert len(server.store) == 0


def test_queries_are_passed_on_and_bounded(server: SparqlServer) -> None:
    graph = graph_at(server)
    graph.replace(RUN, some("a", "b", "c"))
    head, rows = graph.query("SELECT ?o { ?s ?p ?o } ORDER BY ?o", Bounds(rows=2))
    assert head == ResultPart(form="select", variables=["o"])
    assert rows == ResultPart(rows=[{"o": {"type": "literal", "value": value}} for value in "ab"], truncated=True)
    assert list(graph.query("ASK {}", Bounds())) == [ResultPart(form="ask", boolean=True)]
    construct = "CONSTRUCT { ?s ?p ?o } WHERE { ?s ?p ?o }"
    assert [part.truncated for part in graph.query(construct, Bounds(rows=3))] == [False, False]
    cut = list(graph.query(construct, Bounds(size_bytes=30)))[-1]
    assert cut.truncated
    assert len(cut.triples) == 1
    with pytest.raises(GraphRefusedError, match="ask for less"):
        list(graph.query("SELECT * { ?s ?p ?o }", Bounds(size_bytes=30)))
    with pytest.raises(GraphRefusedError, match="the endpoint answered 400"):
        list(graph.query("SELEC", Bounds()))


@pytest.mark.parametrize(
    ("fields", "sent"),
    [
        ({}, ""),
        ({"secret": "token"}, "Bearer abc"),
        ({"secret": "login", "auth": "basic"}, "Basic YW5uOnBhc3M="),
    ],
)
def test_credentials_come_from_a_secret(server: SparqlServer, fields: dict[str, Any], sent: str) -> None:
    server.authorization = sent or None
    graph_at(server, **fields).replace(RUN, some("a"))
    assert server.requests[0][1] == sent


def test_a_secret_that_is_missing_is_named_and_nothing_is_sent(server: SparqlServer) -> None:
    with pytest.raises(GraphUnavailableError, match="this deployment has no secret named 'other'"):
        graph_at(server, secret="other").remove(RUN)
    assert server.requests == []


@pytest.mark.parametrize("status", [301, 401, 403, 404, 408, 429, 500, 503])
def test_what_may_pass_is_unavailable(server: SparqlServer, status: int) -> None:
    server.status = status
    with pytest.raises(GraphUnavailableError, match=f"^the endpoint answered {status}: out of order$"):
        graph_at(server).remove(RUN)
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [400, 405, 413, 422])
def test_what_will_not_pass_is_refused(server: SparqlServer, status: int) -> None:
    server.status = status
    with pytest.raises(GraphRefusedError, match=str(status)):
        graph_at(server).remove(RUN)


def test_triples_to_be_sent_take_no_memory() -> None:
    away = {"update_url": "http://127.0.0.1:1/update", "secret": None}
    many = (triple for _ in range(2_000) for triple in some("x" * 10_000))
    tracemalloc.start()
    try:
        with pytest.raises(GraphUnavailableError, match="the endpoint cannot be reached"):
            SparqlGraph(away, SECRETS).replace(RUN, many)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_a_disk_that_is_full_makes_the_endpoint_unavailable(
    server: SparqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full(io.BytesIO):
        def write(self, _: Any) -> int:
            raise OSError("no space left")

    monkeypatch.setattr("backend.resources.graphs.sparql.TemporaryFile", Full)
    with pytest.raises(GraphUnavailableError, match="there is no room"):
        graph_at(server).replace(RUN, some("a"))
    assert server.requests == []


def test_an_endpoint_that_is_away_is_unavailable() -> None:
    away = {"update_url": "http://127.0.0.1:1/update", "secret": None}
    with pytest.raises(GraphUnavailableError, match="the endpoint cannot be reached"):
        SparqlGraph(away, SECRETS).remove(RUN)


def test_an_endpoint_that_does_not_answer_in_time_is_unavailable(server: SparqlServer) -> None:
    server.open.clear()
    with pytest.raises(GraphUnavailableError, match=r"did not answer within 0\.2 seconds"):
        list(graph_at(server).query("ASK {}", Bounds(seconds=0.2)))


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n"])
def test_an_endpoint_that_answers_byte_by_byte_is_not_waited_for(head: bytes) -> None:
    ended = threading.Event()

    def drip() -> None:
        connection, _ = listening.accept()
        with connection, suppress(OSError):
            connection.recv(65_536)
            connection.sendall(head)
            while not ended.wait(0.05):
                connection.sendall(b" ")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=drip)
        thread.start()
        away = {"endpoint_url": f"http://127.0.0.1:{listening.getsockname()[1]}/", "secret": None}
        try:
            with pytest.raises(GraphUnavailableError, match=r"did not answer within 0\.4 seconds"):
                list(SparqlGraph(away, SECRETS).query("ASK {}", Bounds(seconds=0.4)))
        finally:
            ended.set()
            thread.join(60)


def test_closing_ends_a_call_under_way(server: SparqlServer) -> None:
    from tests.support.poll import until

    server.open.clear()
    graph = graph_at(server)
    errors: list[str] = []

    def call() -> None:
        try:
            graph.remove(RUN)
        except GraphUnavailableError as error:
            errors.append(str(error))

    thread = threading.Thread(target=call)
    thread.start()
    until(lambda: server.requests, "the call")
    graph.close()
    thread.join(60)
    assert len(errors) == 1
    with pytest.raises(GraphUnavailableError):
        graph.remove(RUN)
