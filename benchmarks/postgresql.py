"""Measures starts on PostgreSQL, and how soon their first step runs: `python -m benchmarks.postgresql`.

It makes databases on a server, by default the one at 127.0.0.1:5432, and removes them again.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from os import getpid
from pathlib import Path

import psycopg

from backend.caller import Caller
from backend.clock import system_clock
from backend.cursors import Cursors
from backend.deployment import sql as deployment_sql
from backend.key_changes import KeyChanges
from backend.keys.service import KeyAdministration
from backend.runs.start.service import Starts
from backend.schemas.rules import schema_problem
from backend.services import Services
from backend.storage.factory import open_postgresql
from backend.workflows.manifests.loader import load_manifests
from backend.workflows.service import apply_manifests
from benchmarks.latency import first_steps
from benchmarks.scene import MANIFEST
from workflow_api.v1 import keys_pb2, options_pb2, runs_pb2

CLIENTS = 32
# A key may have so many runs in flight.
STARTS_A_KEY = 100
WIRES_MS = (0.0, 1.0)
SERVER = "postgresql://postgres@127.0.0.1:5432/postgres"


@dataclass(frozen=True)
class Extent:
    """How much is measured: starts of one client, keys whose every slot 32 clients take, and first steps."""

    alone: int = 300
    keys: int = 32
    first_steps: int = 50


QUICK = Extent(alone=5, keys=1, first_steps=2)


class NoRuntime:
    """Runs nothing."""

    def wake(self) -> None:
        """Nobody is there to be woken."""

    def cancel(self, run_id: str) -> None:
        """Nothing goes on."""

    def forget(self, run_id: str) -> None:
        """Nothing was left."""

    def upkeep(self) -> dict[str, int]:
        return {}


class WireProcess:
    """A process between this one and the server; see `benchmarks.wire`."""

    def __init__(self, url: str) -> None:
        self._parts = psycopg.conninfo.conninfo_to_dict(url)
        target = [str(self._parts.get("host", "127.0.0.1")), str(self._parts.get("port", 5432))]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.wire", *target], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._port = self._answer()

    def url(self) -> str:
        return psycopg.conninfo.make_conninfo("", **{**self._parts, "host": "127.0.0.1", "port": self._port})

    def set(self, milliseconds: float) -> int:
        """Makes it so long; gives the round trips since this was called last."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{milliseconds}\n")
        self._process.stdin.flush()
        return self._answer()

    def end(self) -> None:
        self._process.kill()
        self._process.wait()

    def _answer(self) -> int:
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())


class Stage:
    """The services on one database, through a wire, with a workflow that waits for an approval."""

    def __init__(self, url: str) -> None:
        self.database = open_postgresql(url, CLIENTS)
        deployment = self.database.write(lambda tx: deployment_sql.ensure(tx, "bench"))
        cursors = Cursors(bytes.fromhex(deployment.cursor_secret))
        services = Services(self.database, system_clock, deployment.deployment_id, cursors)
        applied = self.database.write(
            lambda tx: apply_manifests(
                tx, load_manifests([("bench.yaml", MANIFEST)], schema_problem), now=system_clock(), actor="bench"
            )
        )
        self.workflow_id = next(one.id for one in applied if one.name == "Parked")
        self._keys = KeyAdministration(services, KeyChanges())
        self._starts = Starts(services, NoRuntime())

    def keys(self, number: int) -> list[str]:
        """So many new keys with the widest limits."""
        request = keys_pb2.CreateKeyRequest(
            name="bench",
            scopes=[options_pb2.SCOPE_WORKFLOWS_READ, options_pb2.SCOPE_RUNS_CREATE],
            daily_run_quota=100_000,
            max_concurrent_runs=STARTS_A_KEY,
        )
        return [str(self._keys.create(request, "bench").row.key_id) for _ in range(number)]

    def start(self, key_id: str, idempotency_key: str) -> float:
        """Starts a run; the seconds that it took."""
        request = runs_pb2.StartRunRequest(
            workflow_id=self.workflow_id,
            idempotency_key=idempotency_key,
            parameters='{"language": "fr"}',
            client_reference="order 7",
            labels={"a": "b"},
        )
        began = time.perf_counter()
        answer = self._starts.start(request, Caller(key_id, "bench", "bench"))
        assert not answer.replayed
        return time.perf_counter() - began


@contextmanager
def new_database(server: str) -> Iterator[str]:
    """The URL of an empty database."""
    name = f"workflow_api_bench_{getpid()}"
    parts = psycopg.conninfo.conninfo_to_dict(server)
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
        try:
            user, host, port = (parts.get(part) for part in ("user", "host", "port"))
            yield f"postgresql://{user or 'postgres'}@{host or '127.0.0.1'}:{port or 5432}/{name}"
        finally:
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


def starts(stage: Stage, wire: WireProcess, milliseconds: float, extent: Extent) -> str:
    """One line of the table: one client alone, then 32 of as many keys as there are."""
    everyone = stage.keys(extent.keys)
    alone = stage.keys(-(-extent.alone // STARTS_A_KEY))
    with ThreadPoolExecutor(CLIENTS) as pool:
        # Every connection is open, and has met the statements before.
        list(pool.map(lambda n: stage.start(everyone[n % len(everyone)], f"warm-{n}"), range(10 * extent.keys)))
        wire.set(milliseconds)
        times = [stage.start(alone[number // STARTS_A_KEY], f"alone-{number}") for number in range(extent.alone)]
        trips = wire.set(milliseconds) / extent.alone
        jobs = [(key, number) for number in range(STARTS_A_KEY - 10) for key in everyone]
        began, cpu = time.perf_counter(), time.process_time()
        crowd = sorted(pool.map(lambda job: stage.start(job[0], f"crowd-{job[1]}"), jobs))
        took, cpu = time.perf_counter() - began, time.process_time() - cpu
        wire.set(0)
    return (
        f"| {milliseconds:.0f} ms | {trips:.2f} | {statistics.median(times) * 1000:.2f} | {len(jobs) / took:.0f} |"
        f" {crowd[len(crowd) // 2] * 1000:.1f} | {crowd[int(len(crowd) * 0.99)] * 1000:.1f} |"
        f" {cpu / len(jobs) * 1e6:.0f} |"
    )


def table(server: str, extent: Extent) -> Iterator[str]:
    yield f"| wire | round trips | alone, ms | starts/s of {CLIENTS} | p50 ms | p99 ms | CPU µs |"
    yield "|---|---|---|---|---|---|---|"
    with new_database(server) as url:
        wire = WireProcess(url)
        try:
            stage = Stage(wire.url())
            for milliseconds in WIRES_MS:
                yield starts(stage, wire, milliseconds, extent)
            stage.database.close()
        finally:
            wire.end()


def latency(server: str, number: int) -> str:
    """From the answer to a start until its first step runs, at a worker that has nothing else to do."""
    with new_database(server) as url, tempfile.TemporaryDirectory() as folder:
        times = [seconds * 1000 for seconds in first_steps(url, Path(folder), number)]
    figures = f"median {statistics.median(times):.0f} ms, worst of {number} {max(times):.0f} ms"
    return f"start answered to first step running, idle: {figures}"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--quick", action="store_true", help="so little that the figures mean nothing: a trial")
    arguments.add_argument("--server", default=SERVER, help="URL of a database to connect to at first")
    given = arguments.parse_args()
    extent = QUICK if given.quick else Extent()
    for line in table(given.server, extent):
        print(line, flush=True)
    print(latency(given.server, extent.first_steps))


if __name__ == "__main__":
    main()
