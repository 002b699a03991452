"""Counts the files and function calls that serving a call takes: `python -m benchmarks.path`.

The length of a path is the number of files, and of calls of Python functions, of this repository in all threads;
libraries do not count. The least of many rounds counts, since concurrent work only adds to it.

`python -m benchmarks.path serve …` is `workflow-api serve` with counting: a line on standard input begins a count,
which an empty line confirms; the next line ends it and prints it as JSON. All threads count, except the one that reads
these lines.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

from benchmarks.servers import Server, port_of
from benchmarks.workload import Key, Workload

_PAUSE_SECONDS: Final = 0.05
_ROOT: Final = Path(__file__).resolve().parent.parent
_OWN: Final = tuple(
    f"{_ROOT / name}/" for name in ("backend", "console", "contract", "deploy", "edge", "redaction", "telemetry")
)


class CallPath(NamedTuple):
    """Numbers of files and of function calls that a call of the API took."""

    files: int
    calls: int


@dataclass(frozen=True)
class CountedService(Server):
    """A service that counts."""

    def between(self, use: Callable[[], object]) -> CallPath:
        """Returns the path counted while `use` runs."""
        self._command()
        use()
        # Work that goes on after the answer is part of the call.
        time.sleep(_PAUSE_SECONDS)
        counted: dict[str, Any] = json.loads(self._command())
        return CallPath(len(counted["files"]), counted["calls"])

    def _command(self) -> str:
        """Tells the service to begin or end a count; returns its answer."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()


@contextmanager
def counted() -> Iterator[CountedService]:
    """Runs the service in one process, in a new data folder, with counts."""
    with tempfile.TemporaryDirectory() as data:
        addresses = ("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0")
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.path", "serve", "--data", data, *addresses, "--json"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            assert process.stdout is not None
            ready = json.loads(process.stdout.readline())
            yield CountedService(process, port_of(ready), ready["grpc"])
        finally:
            process.terminate()
            process.wait()


def measured(rounds: int) -> dict[str, CallPath]:
    """Returns the shortest path of each kind of call, over `rounds` rounds."""
    with counted() as server:
        workload = Workload(server)
        [key] = workload.keys(1)
        found: dict[str, list[CallPath]] = {}
        for _ in range(rounds):
            for name, path in _round(server, workload, key):
                found.setdefault(name, []).append(path)
    return {name: CallPath(*map(min, zip(*paths, strict=True))) for name, paths in found.items()}


def _round(server: CountedService, workload: Workload, key: Key) -> Iterator[tuple[str, CallPath]]:
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

    yield "POST start", server.between(start)
    workload.wait_for(key, {"run_id": run_id, "status": ""}, "waiting_for_approval")
    yield "GET /me", server.between(lambda: workload.call("GET", "/me", key))
    workload.call("POST", f"/runs/{run_id}/cancel", key, {})
    time.sleep(_PAUSE_SECONDS)
    yield "GET /runs/{run_id}, changed", server.between(read)
    yield "GET /runs/{run_id}, unchanged", server.between(read)


class _Counter:
    def __init__(self) -> None:
        self.counting = False
        self.calls: Counter[CodeType] = Counter()

    def profile(self, frame: FrameType, event: str, _: object) -> None:
        if self.counting and event == "call" and frame.f_code.co_filename.startswith(_OWN):
            self.calls[frame.f_code] += 1

    def serve(self) -> None:
        sys.setprofile(None)
        for _ in sys.stdin:
            self.counting = not self.counting
            if self.counting:
                self.calls.clear()
                print(flush=True)
                continue
            counted = dict(self.calls)
            files = sorted({Path(code.co_filename).relative_to(_ROOT).as_posix() for code in counted})
            print(json.dumps({"files": files, "calls": sum(counted.values())}), flush=True)


def serve() -> None:
    """Serves until it is terminated; the arguments are those of `workflow-api`."""
    from deploy.cli.main import main as command

    counter = _Counter()
    threading.Thread(target=counter.serve, daemon=True).start()
    threading.setprofile(counter.profile)
    sys.setprofile(counter.profile)
    command()


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=9)
    arguments.add_argument("--quick", action="store_true", help="a trial")
    given = arguments.parse_args()
    paths = measured(1 if given.quick else given.rounds)
    print("| call | files | calls |")
    print("|---|---|---|")
    for name, path in paths.items():
        print(f"| {name} | {path.files} | {path.calls} |")


if __name__ == "__main__":
    serve() if sys.argv[1:2] == ["serve"] else main()
