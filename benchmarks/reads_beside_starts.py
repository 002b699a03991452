"""Reads beside starts: what is left of the throughput of reads while runs start, for `make bench`."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from math import ceil
from typing import Final

from benchmarks import servers
from benchmarks.spread import median_of
from benchmarks.workload import Key, Workload

_STARTS_PER_SECOND: Final = 20
_KEYS: Final = 8
# Each keeps a slot of its key, which has a hundred, of which some are taken before.
_STARTS_OF_A_KEY: Final = 70
_CONNECTIONS: Final = 16


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
            beside = _load(workload, requests, seconds)
        rates.append(beside.per_second / alone.per_second)
        times.append(beside.p99_ms / alone.p99_ms)
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
