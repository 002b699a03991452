"""Knowledge graph behind a SPARQL 1.1 endpoint."""

import base64
import contextlib
import http.client
import io
import json
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Final
from urllib.parse import urlsplit

from backend.common.json_text import JsonMapping
from backend.common.secrets import SecretError, Secrets
from backend.resources.graphs.graph import (
    Bounds,
    GraphOutcomeUnknownError,
    GraphRefusedError,
    GraphUnavailableError,
    ResultPart,
    TripleStatement,
)

if TYPE_CHECKING:
    from pyoxigraph import Triple

_UPDATE_SECONDS: Final = 300.0
_CONNECT_SECONDS: Final = 10.0
_READ_BYTES: Final = 64 * 1024
# Statuses of a proxy whose server may still be at work.
_PROXY_STATUSES: Final = frozenset({502, 504})
_LONGEST_REASON: Final = 300
# Statuses that the operator of the endpoint can correct, so that the same request succeeds later.
_CORRECTABLE_STATUSES: Final = frozenset({401, 403, 404, 408, 425, 429})
_ANSWERS: Final = "application/sparql-results+json, application/n-triples;q=0.9"


class SparqlGraph:
    """Client of the endpoint that `definition`, the manifest of a knowledge graph, names."""

    def __init__(self, definition: JsonMapping, secrets: Secrets) -> None:
        self._definition = definition
        self._secrets = secrets
        self._closed = False
        self._open: set[http.client.HTTPConnection] = set()
        self._lock = threading.Lock()

    def replace(self, name: str, triples: "Iterable[Triple | TripleStatement]") -> int:
        """Replaces a named graph by one update, which is written to disk before it is sent; see `Graph`."""
        count = 0
        with TemporaryFile() as update:
            try:
                update.write(f"DROP SILENT GRAPH <{name}> ;\n".encode())
                for triple in triples:
                    opening = "" if count else f"INSERT DATA {{ GRAPH <{name}> {{\n"
                    update.write(f"{opening}{triple} .\n".encode())
                    count += 1
                if count:
                    update.write(b"} }")
                update.flush()
            except OSError as error:
                raise GraphUnavailableError("there is no room on the service's disk for what is to be sent") from error
            self._update(update)
        return count

    def remove(self, name: str) -> None:
        """Removes a named graph; see `Graph`."""
        self._update(io.BytesIO(f"DROP SILENT GRAPH <{name}>".encode()))

    def forget_removed(self) -> None:
        """Does nothing, because SPARQL has no request for it; see `Graph`."""

    def query(self, text: str, bounds: Bounds) -> Iterator[ResultPart]:
        """Sends the query to the endpoint; see `Graph`."""
        headers = {"Accept": _ANSWERS, "Content-Type": "application/sparql-query"}
        url = self._definition["endpoint_url"]
        media_type, body, cut = self._post(url, io.BytesIO(text.encode()), headers, bounds.seconds, bounds.size_bytes)
        if media_type == "application/n-triples":
            yield ResultPart(form="construct")
            lines = [line for line in body.decode(errors="replace").split("\n") if line.strip()]
            # A cut answer may end inside a line.
            lines = lines[:-1] if cut else lines
            yield ResultPart(triples=lines[: bounds.rows], truncated=cut or len(lines) > bounds.rows)
            return
        if cut:
            raise GraphRefusedError(f"the answer has more than {bounds.size_bytes:,} bytes: ask for less with LIMIT")
        try:
            yield from _results(json.loads(body), bounds.rows)
        except (ValueError, KeyError, TypeError) as error:
            raise GraphUnavailableError("the endpoint answered something else than SPARQL results in JSON") from error

    def close(self) -> None:
        """Ends every call under way; see `Graph`."""
        with self._lock:
            self._closed = True
            for connection in self._open:
                if connection.sock is not None:
                    with contextlib.suppress(OSError):
                        connection.sock.shutdown(socket.SHUT_RDWR)

    def _update(self, text: IO[bytes]) -> None:
        headers = {"Content-Type": "application/sparql-update"}
        self._post(self._definition["update_url"], text, headers, _UPDATE_SECONDS, _READ_BYTES)

    def _post(
        self, url: str, text: IO[bytes], headers: dict[str, str], seconds: float, most: int
    ) -> tuple[str, bytes, bool]:
        """Returns media type, body up to `most` bytes, and whether it was cut; does not follow redirections."""
        headers |= self._authorization() | {"Content-Length": str(text.seek(0, io.SEEK_END))}
        text.seek(0)
        parts = urlsplit(url)
        target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        deadline = time.monotonic() + seconds
        failure = GraphUnavailableError
        try:
            with self._connected(url) as connection:
                connection.connect()
                failure = GraphOutcomeUnknownError
                connection.sock.settimeout(seconds)
                with _ended_after(connection.sock, deadline - time.monotonic()):
                    connection.request("POST", target, text, headers)
                    answer = connection.getresponse()
                    body = b""
                    while len(body) <= most and (read := answer.read(_READ_BYTES)):
                        body += read
                late = time.monotonic() >= deadline
        except (OSError, http.client.HTTPException, ValueError) as error:
            if isinstance(error, TimeoutError) or time.monotonic() >= deadline:
                raise failure(f"the endpoint did not answer within {seconds:g} seconds") from error
            raise failure(f"the endpoint cannot be reached ({type(error).__name__})") from error
        if late:
            raise GraphOutcomeUnknownError(f"the endpoint did not answer within {seconds:g} seconds")
        if answer.status not in range(200, 300):
            _refuse(answer.status, body)
        return (answer.headers.get_content_type(), body[:most], len(body) > most)

    @contextlib.contextmanager
    def _connected(self, url: str) -> Iterator[http.client.HTTPConnection]:
        parts = urlsplit(url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=_CONNECT_SECONDS)
        with self._lock:
            if self._closed:
                raise GraphUnavailableError("the service is stopping")
            self._open.add(connection)
        try:
            yield connection
        finally:
            with self._lock:
                self._open.discard(connection)
            connection.close()

    def _authorization(self) -> dict[str, str]:
        name = self._definition["secret"]
        if name is None:
            return {}
        try:
            value = self._secrets.get(name)
        except SecretError as error:
            raise GraphUnavailableError(str(error)) from error
        if self._definition["auth"] == "basic":
            return {"Authorization": f"Basic {base64.b64encode(value.encode()).decode()}"}
        return {"Authorization": f"Bearer {value}"}


@contextlib.contextmanager
def _ended_after(connection: socket.socket, seconds: float) -> Iterator[None]:
    """Ends a connection after `seconds` in all, even if each byte arrives in time."""

    def end() -> None:
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _refuse(status: int, body: bytes) -> None:
    details = " ".join(body.decode(errors="replace").split())[:_LONGEST_REASON]
    reason = f"the endpoint answered {status}" + (f": {details}" if details else "")
    if status in _PROXY_STATUSES:
        raise GraphOutcomeUnknownError(reason)
    if status in _CORRECTABLE_STATUSES or status not in range(400, 500):
        raise GraphUnavailableError(reason)
    raise GraphRefusedError(reason)


def _results(answer: JsonMapping, most: int) -> Iterator[ResultPart]:
    """Yields parts of SPARQL 1.1 results in JSON."""
    if "boolean" in answer:
        yield ResultPart(form="ask", boolean=bool(answer["boolean"]))
        return
    rows = answer["results"]["bindings"]
    yield ResultPart(form="select", variables=list(answer["head"]["vars"]))
    yield ResultPart(rows=rows[:most], truncated=len(rows) > most)
