"""What is compared: a server with the requests of every measure."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from urllib.request import Request, urlopen

from benchmarks.servers import Follow, Server


@dataclass(frozen=True)
class Load:
    """The requests of one measure, made before each round, and the status that all of them are answered with."""

    requests: Callable[[], Sequence[str]]
    status: int = 200
    follow: Follow | None = None


@dataclass(frozen=True)
class Subject:
    """A server, with the load of every measure."""

    name: str
    server: Server
    starts: Load
    """Starts of runs that wait for a person, or are only recorded where such a wait costs nothing."""
    run: Load
    runs: Load
    """Lists of 20 runs."""
    one_step: Load
    """Starts of runs of one step, which are followed until they are completed."""


@dataclass(frozen=True)
class Api:
    """Texts of requests to a peer, and calls that prepare it."""

    port: int
    headers: dict[str, str] = field(default_factory=dict)

    def get(self, path: str) -> str:
        return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n{self._lines()}\r\n"

    def post(self, path: str, body: object) -> str:
        text = json.dumps(body)
        return (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n{self._lines()}"
            f"Content-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n{text}"
        )

    def call(self, method: str, path: str, body: object = None) -> "dict[str, str]":
        """Makes a call; returns the answer's members, those that are no text as JSON."""
        content = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", **self.headers}
        request = Request(f"http://127.0.0.1:{self.port}{path}", content, headers, method=method)
        with urlopen(request, timeout=30) as answer:
            found = json.load(answer)
        members = found if isinstance(found, dict) else {"answer": found}
        return {name: value if isinstance(value, str) else json.dumps(value) for name, value in members.items()}

    def _lines(self) -> str:
        return "".join(f"{name}: {value}\r\n" for name, value in self.headers.items())
