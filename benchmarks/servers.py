"""Starts the measured servers on one core, and measures their throughput and CPU time."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

SERVER_CORE = 0
LOAD_CORE = 1
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Server:
    """A running server; `grpc` is its internal address where it has one, `behind` the processes that it calls."""

    process: "subprocess.Popen[str]"
    port: int
    grpc: str = ""
    behind: "tuple[subprocess.Popen[str], ...]" = ()

    def cpu_seconds(self) -> float:
        """Returns the CPU time of its processes so far, without that of steps."""
        return sum(map(_cpu_seconds, (self.process, *self.behind)))


@dataclass(frozen=True)
class Measured:
    """Figures of one round of load on one server."""

    per_second: float
    cpu_us: float
    p50_ms: float
    p99_ms: float


def _cpu_seconds(process: "subprocess.Popen[str]") -> float:
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _on(core: int, arguments: Sequence[str]) -> list[str]:
    return ["taskset", "-c", str(core), sys.executable, *arguments]


def on_load_core(arguments: Sequence[str]) -> list[str]:
    """Returns the command of a Python process that generates load, on another core than the server's."""
    return _on(LOAD_CORE, arguments)


@contextmanager
def bare() -> Iterator[Server]:
    """Runs the bare aiohttp server."""
    process = subprocess.Popen(_on(SERVER_CORE, ["-m", "benchmarks.bare_server"]), stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield Server(process, int(process.stdout.readline()))
    finally:
        process.terminate()
        process.wait()


def part(stack: ExitStack, *arguments: str, core: int | None = None) -> tuple["subprocess.Popen[str]", dict[str, Any]]:
    """Starts a process of the service, which ends with the stack; returns it and the JSON record that it prints."""
    command = [str(Path(sys.executable).parent / "workflow-api"), *arguments, "--json"]
    process = subprocess.Popen(
        command if core is None else _on(core, command), stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
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
        process, ready = part(stack, "serve", "--data", data, *addresses, *options, core=SERVER_CORE)
        yield Server(process, port_of(ready), ready["grpc"])


@contextmanager
def apart(*options: str) -> Iterator[Server]:
    """Runs edge and backend as two processes in a new data folder; the backend shares a core with the load."""
    with tempfile.TemporaryDirectory() as data, ExitStack() as stack:
        backend, record = part(stack, "backend", "--data", data, "--grpc", "127.0.0.1:0", *options, core=LOAD_CORE)
        edge, ready = part(stack, "edge", "--http", "127.0.0.1:0", "--grpc", record["grpc"], *options, core=SERVER_CORE)
        yield Server(edge, port_of(ready), record["grpc"], (backend,))


def load(server: Server, requests: Sequence[str], *, connections: int, seconds: float, expect: int) -> Measured:
    """Sends a load and measures it; every answer must have the expected status."""
    job = {"port": server.port, "connections": connections, "seconds": seconds, "requests": list(requests)}
    before = server.cpu_seconds()
    done = subprocess.run(
        on_load_core(["-m", "benchmarks.load"]), input=json.dumps(job), capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    if set(found["statuses"]) != {str(expect)}:
        raise RuntimeError(f"expected only {expect}, got {found['statuses']}")
    cpu_us = (server.cpu_seconds() - before) / found["requests"] * 1e6
    return Measured(found["per_second"], cpu_us, found["p50_ms"], found["p99_ms"])
