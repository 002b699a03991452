"""Compares the hot paths with a bare aiohttp server: `make bench`.

Prints ratios: the throughput of the service divided by that of the bare server, which answers the same number of
constant bytes under the same load on the same core, and likewise the processor time of a request. Absolute figures
differ between machines. Each figure is the median of the rounds, with the lowest and the highest of them.
"""

import argparse
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle
from math import ceil
from typing import Final

from benchmarks import growth, servers
from benchmarks.servers import Measurement, Server, median_of
from benchmarks.workload import Key, Workload

_STARTS_PER_SECOND: Final = 20
_KEYS: Final = 8
# Each start keeps one of its key's hundred slots, some of which are taken before.
_STARTS_OF_A_KEY: Final = 70
_CONNECTIONS: Final = 16

Requests = Callable[[], Sequence[str]]


@dataclass(frozen=True)
class Extent:
    """Size of a measurement: seconds and number of rounds of load, end-to-end runs, and keys that read."""

    seconds: float = 3.0
    rounds: int = 5
    runs: int = 200
    keys: int = 120


QUICK = Extent(seconds=0.05, rounds=1, runs=5, keys=2)


def compare(
    name: str,
    pair: tuple[Server, Server],
    requests: Requests,
    size: int,
    extent: Extent,
    *,
    connections: int,
    status: int = 200,
) -> str:
    """Returns one row of the table, of rounds that alternate between the service and the bare server."""
    service, bare = pair
    measured: list[Measurement] = []
    baseline: list[Measurement] = []
    for _ in range(extent.rounds):
        texts = requests()
        measured.append(servers.load(service, texts, connections=connections, seconds=extent.seconds, expect=status))
        same = [text.replace(text.split(" ")[1], f"/{size}", 1) for text in texts]
        baseline.append(servers.load(bare, same, connections=connections, seconds=extent.seconds, expect=200))
    rounds = list(zip(measured, baseline, strict=True))
    cells = (
        median_of([own.per_second / other.per_second for own, other in rounds], 3),
        median_of([own.cpu_us for own in measured], 0),
        median_of([other.cpu_us for other in baseline], 0),
        median_of([own.cpu_us / other.cpu_us for own, other in rounds], 1),
        median_of([own.p99_ms for own in measured], 1),
    )
    return f"| {name} | {connections} | {size:,} | {' | '.join(cells)} |"


def end_to_end(workload: Workload, key: Key, extent: Extent) -> list[str]:
    """Measures a one-step run from its POST until a GET shows it completed: one at a time, and 16 at once.

    This process is the caller, so that the server's core is left to the service and its steps.
    """
    os.sched_setaffinity(0, {servers.LOAD_CORE})
    for _ in range(5):
        workload.run(key, "One step", "completed")
    alone, rates = [], []
    for _ in range(max(1, extent.runs // 5)):
        began = time.perf_counter()
        workload.run(key, "One step", "completed")
        alone.append((time.perf_counter() - began) * 1000)
    runs = max(1, extent.runs // extent.rounds)
    with ThreadPoolExecutor(16) as pool:
        for _ in range(extent.rounds):
            began = time.perf_counter()
            list(pool.map(lambda _: workload.run(key, "One step", "completed"), range(runs)))
            rates.append(runs / (time.perf_counter() - began))
    return [
        f"one-step run, POST to seen completed, alone: median {median_of(alone, 0)} ms",
        f"one-step runs, 16 at once: {median_of(rates, 0)} runs/s",
    ]


def hot_paths(workload: Workload, bare: Server, extent: Extent) -> None:
    """Prints the table of ratios."""
    readers, event_readers, listers = (workload.keys(max(1, extent.keys // part)) for part in (1, 6, 2))
    finished = dict(zip(readers, workload.fill(readers, "One step", "completed", 1), strict=True))
    with_events = dict(zip(event_readers, workload.fill(event_readers, "Many events", "completed", 1), strict=True))
    workload.fill(listers, "Parked", "waiting_for_approval", 20)
    gets: list[tuple[str, Sequence[Key], Callable[[Key], str], int]] = [
        ("GET /me", readers, lambda _: "/me", 16),
        ("GET /me", readers, lambda _: "/me", 1),
        ("GET /runs/{run_id}", readers, lambda key: f"/runs/{finished[key]}", 16),
        ("GET /runs/{run_id}", readers, lambda key: f"/runs/{finished[key]}", 1),
        ("GET /runs (20)", listers, lambda _: "/runs", 16),
        ("GET events (200)", event_readers, lambda key: f"/runs/{with_events[key]}/events", 16),
    ]
    print("| path | at once | bytes | of bare | CPU µs | bare CPU µs | CPU of bare | p99 ms |")
    print("|---|---|---|---|---|---|---|---|")
    pair = (workload.server, bare)
    for name, keys, path, connections in gets:
        requests = [key.get(path(key)) for key in keys]
        size = workload.size(path(keys[0]), keys[0])
        print(compare(name, pair, partial(list, requests), size, extent, connections=connections))
    print(start(workload, pair, extent))


def edge_and_backend(bare: Server, extent: Extent) -> str:
    """Returns the table's row for reading a run through an edge and a backend in separate processes."""
    with servers.edge_and_backend() as service:
        workload = Workload(service)
        keys = workload.keys(extent.keys)
        finished = workload.fill(keys, "One step", "completed", 1)
        paths = [f"/runs/{run_id}" for run_id in finished]
        requests = [key.get(path) for key, path in zip(keys, paths, strict=True)]
        size = workload.size(paths[0], keys[0])
        name = "GET /runs/{run_id}, edge and backend apart"
        return compare(name, (service, bare), lambda: requests, size, extent, connections=16)


def start(workload: Workload, pair: tuple[Server, Server], extent: Extent) -> str:
    """Returns the table's row for starts; every round has keys of its own, because each run keeps a slot of its key."""
    workflow_id = workload.workflow_ids["Parked"]

    def requests() -> list[str]:
        # Enough requests for 5,000 starts a second without sending one twice.
        return [
            key.start(workflow_id, language="fr")
            for key in workload.keys(max(4, int(extent.seconds * 50)))
            for _ in range(100)
        ]

    return compare("POST start", pair, requests, 2_000, extent, connections=32, status=201)


def reads_beside_starts(workload: Workload, *, seconds: float, rounds: int) -> str:
    """Returns a line of rounds that alternate between the reads alone and the same reads beside starts.

    Eight keys or more each read a run, a list of 20 and 200 events, and start runs that wait for an approval in turn,
    so that their own lists change.
    """
    starts = seconds * rounds * _STARTS_PER_SECOND
    keys = workload.keys(max(_KEYS, ceil(starts / _STARTS_OF_A_KEY)))
    workload.fill(keys, "Parked", "waiting_for_approval", 20)
    finished = workload.fill(keys, "One step", "completed", 1)
    with_events = workload.fill(keys, "Many events", "completed", 1)
    requests = [
        key.get(path)
        for key, run_id, noted in zip(keys, finished, with_events, strict=True)
        for path in (f"/runs/{run_id}", "/runs", f"/runs/{noted}/events")
    ]
    rates, times = [], []
    for _ in range(rounds):
        alone = _load(workload, requests, seconds)
        with _starting(workload, keys):
            with_starts = _load(workload, requests, seconds)
        rates.append(with_starts.per_second / alone.per_second)
        times.append(with_starts.p99_ms / alone.p99_ms)
    return (
        f"reads by {len(keys)} keys beside {_STARTS_PER_SECOND} starts a second, of the same reads alone: "
        f"throughput {median_of(rates, 2)}, p99 {median_of(times, 1)}"
    )


def _load(workload: Workload, requests: Sequence[str], seconds: float) -> servers.Measurement:
    return servers.load(workload.server, requests, connections=_CONNECTIONS, seconds=seconds, expect=200)


@contextmanager
def _starting(workload: Workload, keys: Sequence[Key]) -> Iterator[None]:
    """Starts runs of the keys in turn, at an even pace, until the context ends.

    Raises:
        RuntimeError: a run was not started.
    """
    over = threading.Event()
    failed: list[BaseException] = []

    def start() -> None:
        try:
            due = time.monotonic()
            for key in cycle(keys):
                if over.wait(max(0.0, due - time.monotonic())):
                    return
                workload.start(key, "Parked")
                due += 1 / _STARTS_PER_SECOND
        except BaseException as error:  # noqa: BLE001 - raised below
            failed.append(error)

    thread = threading.Thread(target=start)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    if failed:
        raise failed[0]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=float, help="length of one round of load (3)")
    arguments.add_argument("--quick", action="store_true", help="a short trial, whose figures mean nothing")
    arguments.add_argument("--runs", type=int, help="instead, compare a key with that many runs with one that has few")
    arguments.add_argument("--database", help="with --runs: PostgreSQL's URL of an empty database in place of SQLite")
    given = arguments.parse_args()
    if given.runs is not None:
        for line in growth.table(given.runs, given.database, rounds=1 if given.quick else 7):
            print(line, flush=True)
        return
    extent = QUICK if given.quick else Extent()
    if given.seconds is not None:
        extent = replace(extent, seconds=given.seconds)
    with servers.service() as service, servers.bare() as bare:
        workload = Workload(service)
        for line in end_to_end(workload, workload.keys(1)[0], extent):
            print(line)
        print(reads_beside_starts(workload, seconds=extent.seconds, rounds=extent.rounds))
        hot_paths(workload, bare, extent)
        print(edge_and_backend(bare, extent))


if __name__ == "__main__":
    main()
