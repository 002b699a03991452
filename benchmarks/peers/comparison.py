"""Measures the service and a peer alternately, and computes the ratios."""

import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.request import Request, urlopen

from benchmarks import servers
from benchmarks.servers import Follow, Measurement, Server

HEAD: Final = (
    "| measure | service | lowest to highest | {peer} | lowest to highest | times the peer | lowest to highest |"
)
RULE: Final = "|---|---|---|---|---|---|---|"

_IDLE_SHARE: Final = 0.1
_IDLE_SECONDS: Final = 0.3
_SETTLES_SECONDS: Final = 60.0


@dataclass(frozen=True)
class Load:
    """The requests of one measure, made before each round, and the expected status of all answers."""

    requests: Callable[[], Sequence[str]]
    status: int = 200
    follow: Follow | None = None


@dataclass(frozen=True)
class Subject:
    """A server, with the load of every measure."""

    name: str
    server: Server
    starts: Load
    """Starts of runs that wait for a person, or are only recorded if the peer has no such wait."""
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
        """Makes a call; returns the answer's members, those other than text as JSON."""
        content = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", **self.headers}
        request = Request(f"http://127.0.0.1:{self.port}{path}", content, headers, method=method)
        with urlopen(request, timeout=30) as answer:
            found = json.load(answer)
        members = found if isinstance(found, dict) else {"answer": found}
        return {name: value if isinstance(value, str) else json.dumps(value) for name, value in members.items()}

    def _lines(self) -> str:
        return "".join(f"{name}: {value}\r\n" for name, value in self.headers.items())


@dataclass(frozen=True)
class Measure:
    """One row: its load, its connections, the figure of a round, and whether a lower figure is better."""

    name: str
    load: Callable[[Subject], Load]
    connections: int
    figure: Callable[[Measurement], float]
    less_is_better: bool = False


MEASURES: Final = (
    Measure("starts a second, 16 at once", lambda subject: subject.starts, 16, lambda found: found.per_second),
    Measure("reads of a run a second, 16 at once", lambda subject: subject.run, 16, lambda found: found.per_second),
    Measure("lists of 20 a second, 16 at once", lambda subject: subject.runs, 16, lambda found: found.per_second),
    Measure(
        "runs of one step a second, 16 at once", lambda subject: subject.one_step, 16, lambda found: found.per_second
    ),
    Measure("a run of one step alone, ms", lambda subject: subject.one_step, 1, lambda found: found.p50_ms, True),
)


def table(service: Subject, peer: Subject, *, rounds: int, seconds: float) -> Iterator[str]:
    """Yields the rows of a peer; each round measures both, in reversed order of the round before."""
    yield HEAD.format(peer=peer.name)
    yield RULE
    for measure in MEASURES:
        own: list[float] = []
        other: list[float] = []
        in_turn = [(service, own), (peer, other)]
        try:
            for _ in range(rounds):
                for subject, found in in_turn:
                    found.append(measure.figure(_round(subject, measure, seconds)))
                    _settle(service.server, peer.server)
                in_turn.reverse()
        except RuntimeError as refused:
            # Such as concurrent starts of Prefect, with which its database does not keep up on a busy machine.
            yield f"| {measure.name} | not measured: {refused} | | | | | |"
        else:
            yield row(measure, own, other)


def row(measure: Measure, service: Sequence[float], peer: Sequence[float]) -> str:
    """Returns a row: medians and spreads of both, and of the ratios of adjacent rounds."""
    ratios = [b / a if measure.less_is_better else a / b for a, b in zip(service, peer, strict=True)]
    return f"| {measure.name} | {_spread(service)} | {_spread(peer)} | {_spread(ratios)} |"


def _spread(values: Sequence[float]) -> str:
    median, lowest, highest = (_figure(each) for each in (statistics.median(values), min(values), max(values)))
    return f"{median} | {lowest} to {highest}"


def _figure(value: float) -> str:
    """Returns a figure with three significant digits, or all digits before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _round(subject: Subject, measure: Measure, seconds: float) -> Measurement:
    load = measure.load(subject)
    return servers.load(
        subject.server,
        load.requests(),
        connections=measure.connections,
        seconds=seconds,
        expect=load.status,
        follow=load.follow,
    )


def _settle(*measured: Server) -> None:
    """Waits, at most a minute, until servers have finished work left by a load, such as started runs."""
    deadline = time.monotonic() + _SETTLES_SECONDS
    while time.monotonic() < deadline:
        before = [server.cpu_seconds() for server in measured]
        time.sleep(_IDLE_SECONDS)
        used = [server.cpu_seconds() - start for server, start in zip(measured, before, strict=True)]
        if max(used) <= _IDLE_SHARE * _IDLE_SECONDS:
            return
