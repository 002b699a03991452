"""A small server that speaks the SPARQL 1.1 protocol, query and update, over a store in memory."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pyoxigraph import QueryResultsFormat, QueryTriples, RdfFormat, Store


class SparqlServer:
    """What it was asked, and how it shall misbehave: `status` answers every request, `open` unset holds each one.

    Only requests with the text `held` are held.
    """

    def __init__(self, url: str) -> None:
        self.store = Store()
        self.endpoint_url = f"{url}/query"
        self.update_url = f"{url}/update"
        self.status: int | None = None
        self.authorization: str | None = None
        self.requests: list[tuple[str, str, str]] = []
        self.open = threading.Event()
        self.open.set()
        self.held = ""

    def graphs(self) -> set[str]:
        """The names of its graphs."""
        return {graph.value for graph in self.store.named_graphs()}

    def sizes(self) -> dict[str, int]:
        """How many triples each graph has."""
        return {
            graph.value: sum(1 for _ in self.store.quads_for_pattern(None, None, None, graph))
            for graph in self.store.named_graphs()
        }

    def answer(self, path: str, media_type: str, body: str) -> tuple[int, str, bytes]:
        """Status, media type and body for a request."""
        if self.status is not None:
            return self.status, "text/plain", b"out of\n order"
        try:
            if (path, media_type) == ("/update", "application/sparql-update"):
                self.store.update(body)
                return 204, "text/plain", b""
            assert (path, media_type) == ("/query", "application/sparql-query")
            found = self.store.query(body, use_default_graph_as_union=True)
        except SyntaxError as error:
            return 400, "text/plain", str(error).encode()
        if isinstance(found, QueryTriples):
            return 200, "application/n-triples", found.serialize(format=RdfFormat.N_TRIPLES) or b""
        return 200, "application/sparql-results+json", found.serialize(format=QueryResultsFormat.JSON) or b""


@contextmanager
def sparql_server() -> Iterator[SparqlServer]:
    """A server on a free port of the loopback address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            server.requests.append((self.path, self.headers.get("Authorization", ""), body))
            if server.held in body:
                server.open.wait(60)
            if server.authorization not in {None, self.headers.get("Authorization")}:
                status, media_type, answer = 401, "text/plain", b"who are you?"
            else:
                status, media_type, answer = server.answer(self.path, self.headers["Content-Type"], body)
            self.send_response(status)
            self.send_header("Content-Type", media_type)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        server = SparqlServer(f"http://127.0.0.1:{http.server_port}")
        thread = threading.Thread(target=http.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server
        finally:
            server.open.set()
            http.shutdown()
            thread.join()
