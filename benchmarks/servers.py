"""Starts the servers under measurement on one core and reads what they cost."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

SERVER_CORE = 0
LOAD_CORE = 1
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Server:
    """A server that runs; `grpc` is its internal address where it has one."""

    process: "subprocess.Popen[str]"
    port: int
    grpc: str = ""

    def cpu_seconds(self) -> float:
        """CPU time of the process so far, without the steps that it spawned."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS


@dataclass(frozen=True)
class Measured:
    """One round of load against one server."""

    per_second: float
    cpu_us: float
    p50_ms: float
    p99_ms: float


def _on(core: int, arguments: Sequence[str]) -> list[str]:
    return ["taskset", "-c", str(core), sys.executable, *arguments]


def on_load_core(arguments: Sequence[str]) -> list[str]:
    """The command of a Python process that makes load, apart from the server."""
    return _on(LOAD_CORE, arguments)


@contextmanager
def bare() -> Iterator[Server]:
    """The bare aiohttp server."""
    process = subprocess.Popen(_on(SERVER_CORE, ["-m", "benchmarks.bare"]), stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield Server(process, int(process.stdout.readline()))
    finally:
        process.terminate()
        process.wait()


@contextmanager
def service() -> Iterator[Server]:
    """The whole service in one process, with full durability, in a new data folder."""
    with tempfile.TemporaryDirectory() as data:
        command = str(Path(sys.executable).parent / "workflow-api")
        arguments = [command, "serve", "--data", data, "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--json"]
        process = subprocess.Popen(_on(SERVER_CORE, arguments), stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            ready = json.loads(process.stdout.readline())
            port, grpc = urlsplit(ready["base_address"]).port or 0, ready["grpc"]
            yield Server(process, port, grpc)
        finally:
            process.terminate()
            process.wait()


def load(server: Server, requests: Sequence[str], *, connections: int, seconds: float, expect: int) -> Measured:
    """Sends a load and measures; every answer must have the expected status."""
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
