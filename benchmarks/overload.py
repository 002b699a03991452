"""Measures how long callers wait while the service is overloaded: `python -m benchmarks.overload`.

Prints the medians and 95th percentiles of `GET /health` and `GET /me` under each load as multiples of the idle
service's, and the peak memory of the service so far.
"""

import argparse
import json
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import servers
from benchmarks.workload import Key, Workload

PAUSE_SECONDS = 0.005


@dataclass(frozen=True)
class Extent:
    """Size of a measurement: seconds of each load, connections of a flood, files of a zip."""

    seconds: float = 4.0
    connections: int = 2_000
    files: int = 2_000


QUICK = Extent(seconds=0.1, connections=20, files=20)


@dataclass(frozen=True)
class Load:
    """A kind of load; `text` is what each connection sends."""

    name: str
    connections: int
    text: str = ""
    reads: bool = True
    again: bool = False


def loads(extent: Extent, key: Key, zip_run: str, idle: int) -> list[Load]:
    post = "POST /api/v1/runs/x/cancel HTTP/1.1\r\nHost: t\r\n"
    deep = "[" + ",".join(["[" * 900 + "]" * 900] * 580) + "]"
    names = "{" + ",".join(f'"{number}":1' for number in range(95_000)) + "}"
    few = max(1, extent.connections // 250)
    return [
        Load("connections that send nothing", idle),
        Load("headers that do not end, 60 KB each", idle, "GET / HTTP/1.1\r\n" + f"X: {'x' * 30_000}\r\n" * 2),
        Load("bodies that do not end, 1 MB each", idle, f"{post}Content-Length: 1048576\r\n\r\n" + " " * 1_000_000),
        Load("answers that nobody reads", idle, "GET /openapi.json HTTP/1.1\r\nHost: t\r\n\r\n" * 20, reads=False),
        Load("deep JSON, 1 MB each, again and again", few, body(post, deep), again=True),
        Load("JSON of 95,000 names, again and again", few, body(post, names), again=True),
        Load(
            "zips of many files", max(1, extent.connections // 40), key.get(f"/runs/{zip_run}/outputs.zip"), again=True
        ),
    ]


def body(head: str, text: str) -> str:
    return f"{head}Connection: close\r\nContent-Length: {len(text)}\r\n\r\n{text}"


def durations(port: int, text: str, seconds: float) -> list[float]:
    """Returns the sorted durations of one request, repeated on one connection; at least one."""
    taken: list[float] = []
    until = time.perf_counter() + seconds
    with socket.create_connection(("127.0.0.1", port), timeout=120) as connection, connection.makefile("rb") as file:
        while not taken or time.perf_counter() < until:
            began = time.perf_counter()
            connection.sendall(text.encode())
            if b" 200 " not in file.readline():
                raise RuntimeError(f"refused: {text.partition(' HTTP')[0]}")
            head = b"".join(iter(file.readline, b"\r\n")).lower()
            file.read(int(head.partition(b"content-length: ")[2].split()[0]))
            taken.append(time.perf_counter() - began)
            time.sleep(PAUSE_SECONDS)
    return sorted(taken)


def health_and_me(workload: Workload, key: Key, seconds: float) -> list[float]:
    """Returns median and 95th percentile of GET /health, then of GET /me."""
    with ThreadPoolExecutor(2) as pool:
        measured = list(
            pool.map(lambda path: durations(workload.server.port, key.get(path), seconds), ("/health", "/me"))
        )
    return [taken[int(len(taken) * part)] for taken in measured for part in (0.5, 0.95)]


@contextmanager
def flood(port: int, load: Load) -> Iterator[None]:
    """Keeps up a load while the context lasts, which begins once every connection has sent."""
    job = {"port": port, **{name: getattr(load, name) for name in ("connections", "text", "reads", "again")}}
    command = servers.on_load_core(["-m", "benchmarks.load", "flood"])
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(job) + "\n")
        process.stdin.flush()
        process.stdout.readline()
        yield
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


@contextmanager
def starts(workload: Workload, extent: Extent) -> Iterator[None]:
    """Starts runs from ten times the connections that keep the service busy."""
    keys = workload.keys(max(1, extent.connections // 40))
    requests = [key.start(workload.workflow_ids["Parked"], language="fr") for key in keys for _ in range(100)]
    job = {"port": workload.server.port, "connections": extent.connections // 6, "seconds": 2 * extent.seconds}
    process = subprocess.Popen(
        ["nice", *servers.on_load_core(["-m", "benchmarks.load", "requests"])],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    with ThreadPoolExecutor(1) as pool:
        feeding = pool.submit(process.communicate, json.dumps({**job, "requests": requests}))
        time.sleep(extent.seconds / 4)
        yield
        feeding.result()


def row(name: str, connections: int, measured: list[float], idle: list[float], memory: int) -> str:
    ratios = " | ".join(f"{now / before:.1f}" for now, before in zip(measured, idle, strict=True))
    return f"| {name} | {connections:,} | {ratios} | {memory} |"


def peak_memory_mb(server: servers.Server) -> int:
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) // 1000


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--quick", action="store_true", help="a short trial, whose figures mean nothing")
    extent = QUICK if arguments.parse_args().quick else Extent()
    with servers.service() as server:
        workload = Workload(server)
        key = workload.keys(1)[0]
        zip_run = workload.run(key, "Many files", "completed", parameters={"count": extent.files})
        health_and_me(workload, key, extent.seconds / 2)
        idle = health_and_me(workload, key, extent.seconds)
        print("| load | connections | /health p50 | p95 | /me p50 | p95 | MB |\n|---|---|---|---|---|---|---|")
        with starts(workload, extent):
            measured = health_and_me(workload, key, extent.seconds)
        print(row("starts", extent.connections // 6, measured, idle, peak_memory_mb(server)))
        for load in loads(extent, key, zip_run, extent.connections):
            with flood(server.port, load):
                measured = health_and_me(workload, key, extent.seconds)
            print(row(load.name, load.connections, measured, idle, peak_memory_mb(server)), flush=True)
        milliseconds = [f"{value * 1000:.2f}" for value in idle]
        print(
            f"\nidle, ms: /health {milliseconds[0]} and {milliseconds[1]}, /me {milliseconds[2]} and {milliseconds[3]}"
        )


if __name__ == "__main__":
    main()
