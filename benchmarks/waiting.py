"""Measures callers that wait for runs: `python -m benchmarks.waiting`.

Prints first the cost of held callers at one edge, then the time from a change until a waiting caller has its answer: in
one process, with edge and backend apart, and on PostgreSQL with a change through another backend.
"""

import argparse
import json
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import servers
from benchmarks.postgresql import SERVER, new_database
from benchmarks.servers import Server
from benchmarks.workload import Key, Workload

# Held calls that a key may have.
CALLS_OF_A_KEY = 20
WAIT_SECONDS = 30
MOST_CHANGES = 20
"""Most changes of one measurement while the callers wait."""


@dataclass(frozen=True)
class Extent:
    """Size of a measurement: callers that wait, seconds over which their cost is measured, and changes."""

    callers: int = 5_000
    seconds: float = 30.0
    spread: float = 30.0
    changes: int = 200


QUICK = Extent(callers=20, seconds=0.2, spread=0.1, changes=3)


@contextmanager
def waiting(server: Server, workload: Workload, extent: Extent, of_a_run: int) -> Iterator[None]:
    """Keeps callers waiting, twenty of a key, `of_a_run` of them for one parked run."""
    keys = workload.keys(-(-extent.callers // CALLS_OF_A_KEY))
    callers = [key for key in keys for _ in range(CALLS_OF_A_KEY)][: extent.callers]
    with ThreadPoolExecutor(4) as pool:
        runs = list(pool.map(lambda key: workload.run(key, "Parked", "waiting_for_approval"), callers[::of_a_run]))
    requests = [
        key.get(f"/runs/{runs[number // of_a_run]}?wait_seconds={WAIT_SECONDS}") for number, key in enumerate(callers)
    ]
    command = servers.on_load_core(["-m", "benchmarks.load", "callers"])
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as load:
        assert load.stdin is not None
        assert load.stdout is not None
        load.stdin.write(json.dumps({"port": server.port, "requests": requests, "spread": extent.spread}) + "\n")
        load.stdin.flush()
        load.stdout.readline()
        yield
        load.stdin.close()
        statuses = json.loads(load.stdout.readline())
    if set(statuses) - {"200"}:
        raise RuntimeError(f"expected only 200, got {statuses}")


def megabytes(server: Server) -> float:
    """Returns the memory of the process with the edge."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1000


def cpu_share(server: Server, seconds: float) -> float:
    """Returns the share of a core that the process with the edge uses."""
    edge = Server(server.process, server.port)
    before, began = edge.cpu_seconds(), time.perf_counter()
    time.sleep(seconds)
    return (edge.cpu_seconds() - before) / (time.perf_counter() - began)


def changes(waiter: Workload, changer: Workload, key: Key, number: int) -> tuple[list[float], list[float]]:
    """Returns the milliseconds until a waiting caller has its answer: from the change's request, and from its answer.

    The commit is between the two.
    """
    from_request, from_answer = [], []
    with ThreadPoolExecutor(1) as pool:
        for _ in range(number):
            run_id = changer.run(key, "Parked", "waiting_for_approval")
            answered = _waited(pool, waiter, key, run_id)
            time.sleep(0.1)
            sent = time.perf_counter()
            changer.call("POST", f"/runs/{run_id}/cancel", key)
            done = time.perf_counter()
            at = answered.result()
            from_request.append((at - sent) * 1000)
            from_answer.append((at - done) * 1000)
    return from_request, from_answer


def _waited(pool: ThreadPoolExecutor, workload: Workload, key: Key, run_id: str) -> "Future[float]":
    """Returns the time at which a caller that waits from now on learns that the run has ended."""
    under_way = threading.Event()

    def wait() -> float:
        under_way.set()
        _, run = workload.call("GET", f"/runs/{run_id}?wait_seconds={WAIT_SECONDS}", key)
        if run["status"] != "cancelled":
            raise RuntimeError(f"answered with {run['status']}")
        return time.perf_counter()

    future = pool.submit(wait)
    under_way.wait()
    return future


@contextmanager
def two_backends(url: str) -> Iterator[tuple[Server, Server]]:
    """Runs two backends and a worker on one database; each backend has an edge of its own."""
    with tempfile.TemporaryDirectory() as data, ExitStack() as stack:
        config = Path(data) / "settings.toml"
        config.write_text(f'backend.database = "{url}"\nruntime.engine = "dbos"\nobjects.folder = "{data}/objects"\n')
        settings = ("--config", str(config))
        found = []
        for name in ("first", "second"):
            folder = ("--data", f"{data}/{name}")
            backend, record = servers.start_part(stack, "backend", "--grpc", "127.0.0.1:0", *folder, *settings)
            edge, ready = servers.start_part(
                stack, "edge", "--http", "127.0.0.1:0", "--grpc", record["grpc"], *settings
            )
            if name == "first":
                servers.start_part(stack, "worker", "--data", f"{data}/worker", *settings)
            found.append(Server(edge, servers.port_of(ready), record["grpc"], (backend,)))
        yield found[0], found[1]


def shown(name: str, measured: Sequence[float]) -> str:
    ordered = sorted(measured)
    return f"{name}: p50 {statistics.median(ordered):.1f}, p99 {ordered[int(len(ordered) * 0.99)]:.1f}"


def report(name: str, measured: tuple[list[float], list[float]]) -> None:
    print(f"{name}, ms; {shown('from the request of the change', measured[0])}; {shown('its answer', measured[1])}")


def _settings(folder: str, extent: Extent) -> tuple[str, str]:
    """Returns the options of an edge that takes all callers."""
    config = Path(folder) / "settings.toml"
    config.write_text(f"edge.connections = {extent.callers * 2}\n")
    return "--config", str(config)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a trial, whose figures mean nothing")
    parser.add_argument("--server", default=SERVER, help="a PostgreSQL server (%(default)s)")
    given = parser.parse_args()
    extent = QUICK if given.quick else Extent()
    for name, deployment in (("in one process", servers.service), ("edge and backend apart", servers.edge_and_backend)):
        with tempfile.TemporaryDirectory() as folder, deployment(*_settings(folder, extent)) as server:
            workload = Workload(server)
            idle = megabytes(server)
            for of_a_run in (CALLS_OF_A_KEY, 1):
                with waiting(server, workload, extent, of_a_run):
                    share, memory = cpu_share(server, extent.seconds), megabytes(server)
                    print(
                        f"{extent.callers} callers wait, {of_a_run} for each run, {name}: "
                        f"{memory:.0f} MB (idle {idle:.0f}), {share:.1%} of a core"
                    )
                    under_load = changes(workload, workload, workload.keys(1)[0], min(extent.changes, MOST_CHANGES))
                    report(f"a change while they wait, {name}", under_load)
            report(f"a change, {name}", changes(workload, workload, workload.keys(1)[0], extent.changes))
    with new_database(given.server) as url, two_backends(url) as (first, second):
        waiter, changer = Workload(first), Workload(second)
        key = waiter.keys(1)[0]
        changer.await_keys(key)
        report("a change through another backend, on PostgreSQL", changes(waiter, changer, key, extent.changes))


if __name__ == "__main__":
    main()
