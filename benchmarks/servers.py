"""Starts the measured servers on one core, and measures their throughput and CPU time, as medians with spreads."""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

SERVER_CORE = 0
LOAD_CORE = 1
# Seconds for requests under way when the time of a load is over.
_LOAD_ENDS_SECONDS = 120.0


@dataclass(frozen=True)
class Server:
    """A running server; `grpc` is its internal address if it has one, `behind` the processes that it calls."""

    process: "subprocess.Popen[str]"
    port: int
    grpc: str = ""
    behind: "tuple[subprocess.Popen[str], ...]" = ()

    def cpu_seconds(self) -> float:
        """Returns the CPU time of the server's processes so far, without steps."""
        return sum(cpu_seconds(process.pid) for process in (self.process, *self.behind))


@dataclass(frozen=True)
class Follow:
    """Requests that follow each request of a load until an answer contains `until`; `failed` is the text of a failure.

    All connections together read at most `most` times a second, so that a slow server is not busy answering them.
    """

    requests: Sequence[str]
    until: str
    failed: str
    most: float = 8_000


@dataclass(frozen=True)
class Measurement:
    """Figures of one round of load on one server."""

    per_second: float
    cpu_us: float
    p50_ms: float
    p99_ms: float


def cpu_seconds(pid: int) -> float:
    """Returns a process's processor time in seconds, precise to nanoseconds; `/proc` counts hundredths of a second."""
    # The clock's id, computed as by clock_getcpuclockid(3).
    return time.clock_gettime((~pid << 3) | 2)


def _pinned(core: int, arguments: Sequence[str]) -> list[str]:
    return ["taskset", "-c", str(core), sys.executable, *arguments]


def on_load_core(arguments: Sequence[str]) -> list[str]:
    """Returns the command of a Python process that generates load, on another core than the server's."""
    return _pinned(LOAD_CORE, arguments)


@contextmanager
def bare() -> Iterator[Server]:
    """Runs the bare aiohttp server."""
    process = subprocess.Popen(
        _pinned(SERVER_CORE, ["-m", "benchmarks.bare_server"]), stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield Server(process, int(process.stdout.readline()))
    finally:
        process.terminate()
        process.wait()


def start_part(
    stack: ExitStack, *arguments: str, core: int | None = None
) -> tuple["subprocess.Popen[str]", dict[str, Any]]:
    """Starts a process of the service, which ends with the stack; returns it and the JSON record that it prints."""
    command = [str(Path(sys.executable).parent / "workflow-api"), *arguments, "--json"]
    process = subprocess.Popen(
        command if core is None else _pinned(core, command),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        # The log would have a line for each request.
        stderr=subprocess.DEVNULL,
        text=True,
    )
    stack.callback(process.wait)
    stack.callback(process.terminate)
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())


def port_of(ready: dict[str, Any]) -> int:
    """Returns the port of a part that serves HTTP, from the record that it prints."""
    return urlsplit(ready["base_address"]).port or 0


@contextmanager
def service(*options: str) -> Iterator[Server]:
    """Runs the service in one process with full durability, in a new data folder unless `options` name one."""
    with tempfile.TemporaryDirectory() as data, ExitStack() as stack:
        addresses = ("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0")
        process, ready = start_part(stack, "serve", "--data", data, *addresses, *options, core=SERVER_CORE)
        yield Server(process, port_of(ready), ready["grpc"])


@contextmanager
def edge_and_backend(*options: str) -> Iterator[Server]:
    """Runs edge and backend as two processes in a new data folder; the backend shares a core with the load."""
    with tempfile.TemporaryDirectory() as data, ExitStack() as stack:
        backend, record = start_part(
            stack, "backend", "--data", data, "--grpc", "127.0.0.1:0", *options, core=LOAD_CORE
        )
        edge, ready = start_part(
            stack, "edge", "--http", "127.0.0.1:0", "--grpc", record["grpc"], *options, core=SERVER_CORE
        )
        yield Server(edge, port_of(ready), record["grpc"], (backend,))


def load(
    server: Server,
    requests: Sequence[str],
    *,
    connections: int,
    seconds: float,
    expect: int,
    follow: Follow | None = None,
) -> Measurement:
    """Sends a load and measures it. For `follow` see `benchmarks.load`.

    Raises:
        RuntimeError: an answer had another status than the expected one, a run failed, or the load did not end.
    """
    job: dict[str, Any] = {"port": server.port, "connections": connections, "seconds": seconds}
    job |= {"requests": list(requests), "follow": follow and asdict(follow)}
    before = server.cpu_seconds()
    try:
        done = subprocess.run(
            on_load_core(["-m", "benchmarks.load", "requests"]),
            input=json.dumps(job),
            capture_output=True,
            text=True,
            check=True,
            timeout=seconds + _LOAD_ENDS_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"not all had ended {_LOAD_ENDS_SECONDS:.0f} s after the time of the load") from None
    found: dict[str, Any] = json.loads(done.stdout)
    if set(found["statuses"]) != {str(expect)}:
        raise RuntimeError(f"expected only {expect}, got {found['statuses']}")
    cpu_us = (server.cpu_seconds() - before) / found["requests"] * 1e6
    return Measurement(found["per_second"], cpu_us, found["p50_ms"], found["p99_ms"])


def median_of(values: Sequence[float], digits: int) -> str:
    """Returns `median (lowest to highest)`, each with as many digits after the point."""
    median, lowest, highest = (f"{each:,.{digits}f}" for each in (statistics.median(values), min(values), max(values)))
    return f"{median} ({lowest} to {highest})"
