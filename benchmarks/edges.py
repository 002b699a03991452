"""Compares edges in processes of their own with the edge in `serve`'s process: `python -m benchmarks.edges`.

The servers have all processors, and the load shares one of them: on two cores it takes from an edge what it needs
itself. All services are measured in turn in every round, and each figure is the median of its rounds. However many
edges there are, a second has no more calls than the backend's processor time allows.
"""

import argparse
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from benchmarks import servers
from benchmarks.servers import Server
from benchmarks.workload import Workload

_AT_ONCE = 16


@dataclass(frozen=True)
class Extent:
    """Size of a measurement: edges of each service, seconds and number of rounds of load, and keys."""

    edges: Sequence[int] = (0, 1, 2)
    seconds: float = 3.0
    rounds: int = 5
    keys: int = 60


QUICK = Extent(seconds=0.05, rounds=1, keys=2)


@dataclass(frozen=True)
class Edges(Server):
    """A service with its edges."""

    def cpu_seconds(self) -> float:
        """Returns the processor time of the command and of its edges so far, without that of steps."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return sum(map(servers.cpu_seconds, filter(_is_edge, map(int, children))), self.backend_cpu_seconds())

    def backend_cpu_seconds(self) -> float:
        """Returns the processor time of the command alone, which no further edge shares."""
        return servers.cpu_seconds(self.process.pid)


def _is_edge(pid: int) -> bool:
    try:
        return "deploy.serve.edge_worker" in Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return False


@contextmanager
def service(edges: int) -> Iterator[Edges]:
    """Runs the service with so many edges, 0 for one in its process, in a new data folder on all processors."""
    with tempfile.TemporaryDirectory() as data, ExitStack() as stack:
        addresses = ("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--edges", str(edges))
        process, ready = servers.part(stack, "serve", "--data", data, *addresses)
        yield Edges(process, servers.port_of(ready), ready["grpc"])


class Round(NamedTuple):
    """Figures of one round on one service: calls a second, and processor time of a call in all and in the backend."""

    per_second: float
    cpu_us: float
    backend_us: float


@dataclass(frozen=True)
class Call:
    """What is asked, how each service's requests for a round are made, and the status of every answer."""

    name: str
    requests: Callable[[Workload], Sequence[str]]
    status: int


def rows(extent: Extent) -> Iterator[str]:
    """Yields the table."""
    yield "| path | edges | a second | least to most | of the first | CPU µs | of it backend |"
    yield "|---|---|---|---|---|---|---|"
    with ExitStack() as stack:
        services = {edges: stack.enter_context(service(edges)) for edges in extent.edges}
        workloads = {edges: Workload(server) for edges, server in services.items()}
        for call in _calls(workloads, extent):
            found: dict[int, list[Round]] = {edges: [] for edges in services}
            for _ in range(extent.rounds):
                for edges, server in services.items():
                    found[edges].append(_round(server, call, call.requests(workloads[edges]), extent.seconds))
            yield from _compared(call.name, found)


def _round(server: Edges, call: Call, texts: Sequence[str], seconds: float) -> Round:
    total, backend = server.cpu_seconds(), server.backend_cpu_seconds()
    measured = servers.load(server, texts, connections=_AT_ONCE, seconds=seconds, expect=call.status)
    total, backend = server.cpu_seconds() - total, server.backend_cpu_seconds() - backend
    return Round(measured.per_second, measured.cpu_us, measured.cpu_us * backend / total if total else 0.0)


def _compared(name: str, found: dict[int, list[Round]]) -> Iterator[str]:
    first = next(iter(found.values()))
    for edges, rounds in found.items():
        rates = [each.per_second for each in rounds]
        ratio = statistics.median(each.per_second / base.per_second for each, base in zip(rounds, first, strict=True))
        cpu_us, backend_us = (statistics.median(values) for values in zip(*(each[1:] for each in rounds), strict=True))
        yield (
            f"| {name} | {edges} | {statistics.median(rates):.0f} | {min(rates):.0f} to {max(rates):.0f} | {ratio:.2f} "
            f"| {cpu_us:.0f} | {backend_us:.0f} |"
        )


def _calls(workloads: dict[int, Workload], extent: Extent) -> list[Call]:
    """Makes what is read, of each service."""
    reads: dict[Workload, tuple[list[str], list[str]]] = {}
    for workload in workloads.values():
        keys = workload.keys(extent.keys)
        finished = workload.fill(keys, "One step", "completed", 1)
        me = [key.get("/me") for key in keys]
        reads[workload] = me, [key.get(f"/runs/{run_id}") for key, run_id in zip(keys, finished, strict=True)]

    def starts(workload: Workload) -> list[str]:
        workflow_id = workload.workflow_ids["Parked"]
        keys = workload.keys(max(1, int(extent.seconds * 20)))
        return [key.start(workflow_id, language="fr") for key in keys for _ in range(100)]

    return [
        # First, while the connections of the workloads are still open.
        Call("POST start", starts, 201),
        Call("GET /me", lambda workload: reads[workload][0], 200),
        Call("GET /runs/{run_id}", lambda workload: reads[workload][1], 200),
    ]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--edges", help="edges of each service (0,1,2)")
    arguments.add_argument("--rounds", type=int, help="rounds of load (5)")
    arguments.add_argument("--quick", action="store_true", help="a short trial, whose figures mean nothing")
    given = arguments.parse_args()
    extent = QUICK if given.quick else Extent()
    if given.edges is not None:
        extent = Extent(tuple(map(int, given.edges.split(","))), extent.seconds, extent.rounds, extent.keys)
    if given.rounds is not None:
        extent = Extent(extent.edges, extent.seconds, given.rounds, extent.keys)
    for line in rows(extent):
        print(line, flush=True)


if __name__ == "__main__":
    main()
