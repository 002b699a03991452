"""Counts what a call passes in the process that serves it: `python -m benchmarks.path`.

A path is as long as the files and the calls of Python functions of this repository that it passes, in all threads;
libraries do not count, and neither does what waits beside it, which is counted without a call and taken off.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from benchmarks.servers import Server, port_of
from benchmarks.workload import Key, Workload

_PAUSE_SECONDS: Final = 0.05


class Path(NamedTuple):
    """Files and calls that a call passed."""

    files: int
    calls: int


@dataclass(frozen=True)
class Counted(Server):
    """A service that counts."""

    def between(self, use: Callable[[], object]) -> Path:
        """Returns what is passed while something is done."""
        self._told()
        use()
        # What an answer leaves to do is a part of its call.
        time.sleep(_PAUSE_SECONDS)
        counted: dict[str, Any] = json.loads(self._told())
        return Path(len(counted["files"]), counted["calls"])

    def _told(self) -> str:
        """Says that a count begins or ends; returns what the service says to that."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()


@contextmanager
def counted() -> Iterator[Counted]:
    """Runs the service in one process, in a new data folder, with counts."""
    with tempfile.TemporaryDirectory() as data:
        addresses = ("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0")
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.path_server", "serve", "--data", data, *addresses, "--json"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            assert process.stdout is not None
            ready = json.loads(process.stdout.readline())
            yield Counted(process, port_of(ready), ready["grpc"])
        finally:
            process.terminate()
            process.wait()


def measured(rounds: int) -> dict[str, Path]:
    """Returns the median path of each kind of call, over so many rounds of each."""
    with counted() as server:
        workload = Workload(server)
        [key] = workload.keys(1)
        found: dict[str, list[Path]] = {}
        for _ in range(rounds):
            for name, path in _round(server, workload, key):
                found.setdefault(name, []).append(path)
    return {
        name: Path(*(round(statistics.median(each)) for each in zip(*paths, strict=True)))
        for name, paths in found.items()
    }


def _round(server: Counted, workload: Workload, key: Key) -> Iterator[tuple[str, Path]]:
    run_id = ""

    def start() -> None:
        nonlocal run_id
        path = f"/workflows/{workload.workflow_ids['Parked']}/runs"
        headers = {"Idempotency-Key": f"path-{time.monotonic_ns()}"}
        status, run = workload.call("POST", path, key, {}, **headers)
        if status != 201:
            raise RuntimeError(f"start answered {status}: {run}")
        run_id = run["run_id"]

    def read() -> None:
        status, answer = workload.call("GET", f"/runs/{run_id}", key)
        if status != 200:
            raise RuntimeError(f"read answered {status}: {answer}")

    yield "nothing", server.between(lambda: None)
    yield "POST start", server.between(start)
    workload.wait_for(key, {"run_id": run_id, "status": ""}, "waiting_for_approval")
    yield "GET /me", server.between(lambda: workload.call("GET", "/me", key))
    workload.call("POST", f"/runs/{run_id}/cancel", key, {})
    time.sleep(_PAUSE_SECONDS)
    yield "GET /runs/{run_id}, changed", server.between(read)
    yield "GET /runs/{run_id}, unchanged", server.between(read)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=9)
    arguments.add_argument("--quick", action="store_true", help="a trial")
    given = arguments.parse_args()
    paths = measured(1 if given.quick else given.rounds)
    idle = paths.pop("nothing")
    print("| call | files | calls |")
    print("|---|---|---|")
    for name, path in paths.items():
        print(f"| {name} | {path.files} | {max(0, path.calls - idle.calls)} |")


if __name__ == "__main__":
    main()
