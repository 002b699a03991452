"""Measures starts on PostgreSQL, and the time until their first step runs: `python -m benchmarks.postgresql`.

Creates databases on a server, by default the one at 127.0.0.1:5432, and drops them at the end.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from os import getpid
from pathlib import Path
from urllib.parse import urlencode

import psycopg

from backend.common.clock import system_clock
from backend.common.paging import Cursors
from backend.common.principal import Principal
from backend.common.waits import KeyChanges
from backend.services.dependencies import Services
from backend.services.deployment import sql as deployment_sql
from backend.services.keys.administration import KeyAdministration
from backend.services.runs.start.service import RunStarter
from backend.services.workflows.manifests.loader import load_manifests
from backend.services.workflows.new_versions import apply_manifests
from backend.storage.factory import open_postgresql
from benchmarks import servers
from benchmarks.servers import Server
from benchmarks.workload import MANIFEST, Workload
from workflow_api.v1 import keys_pb2, options_pb2, runs_pb2

CLIENTS = 32
# The most runs in flight that a key may have.
STARTS_A_KEY = 100
DELAYS_MS = (0.0, 1.0)
SERVER = "postgresql://postgres@127.0.0.1:5432/postgres"

# Longer than every polling interval of the service, and no multiple of one.
_PAUSE_SECONDS = 0.237
_MANIFEST = """
kind: Agent
name: clock
type: python
code: |
  import time
  def run(context):
      return {"at": time.time()}
---
kind: Workflow
name: Time
status: active
steps: [{step: read, agent: clock, environment: standard}]
result: {step: read}
"""
_SETTINGS = """
backend.database = "{url}"
runtime.engine = "dbos"
objects.folder = "{objects}"
"""


@dataclass(frozen=True)
class Extent:
    """Size of a measurement: starts by one client, keys whose slots 32 clients fill, and first steps."""

    alone: int = 300
    keys: int = 32
    first_steps: int = 50


QUICK = Extent(alone=5, keys=1, first_steps=2)


class NoRuntime:
    """A runtime that executes nothing."""

    def begin_run(self, *_: object) -> None:
        """Begins no run."""

    def wake(self) -> None:
        """Does nothing."""

    def cancel(self, run_id: str) -> None:
        """Does nothing."""

    def forget(self, run_id: str) -> None:
        """Does nothing."""

    def upkeep(self) -> dict[str, int]:
        return {}


class ProxyProcess:
    """A process of `tests.support.long_wire`, between this one and the server."""

    def __init__(self, url: str) -> None:
        self._parts = psycopg.conninfo.conninfo_to_dict(url)
        target = [str(self._parts.get("host", "127.0.0.1")), str(self._parts.get("port", 5432))]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.long_wire", *target],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._port = self._answer()

    def url(self) -> str:
        return psycopg.conninfo.make_conninfo("", **{**self._parts, "host": "127.0.0.1", "port": self._port})

    def set_delay(self, milliseconds: float) -> int:
        """Sets the delay of a round trip; returns the number of round trips since the previous call."""
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


class StartBench:
    """The start service on one database, with a workflow that waits for an approval."""

    def __init__(self, url: str) -> None:
        self.database = open_postgresql(url, CLIENTS)
        deployment = self.database.write(lambda tx: deployment_sql.get_or_create(tx, "bench"))
        cursors = Cursors(bytes.fromhex(deployment.cursor_secret))
        services = Services(self.database, system_clock, deployment.deployment_id, cursors)
        manifests = load_manifests([("bench.yaml", MANIFEST)], services.schemas.manifest_checks())
        services.schemas.close()
        applied = self.database.write(lambda tx: apply_manifests(tx, manifests, now=system_clock(), actor="bench"))
        self.workflow_id = next(one.id for one in applied if one.name == "Parked")
        self._keys = KeyAdministration(services, KeyChanges())
        self._starts = RunStarter(services, NoRuntime())

    def keys(self, number: int) -> list[str]:
        """Creates keys with the highest limits; returns their ids."""
        request = keys_pb2.CreateKeyRequest(
            name="bench",
            scopes=[options_pb2.SCOPE_WORKFLOWS_READ, options_pb2.SCOPE_RUNS_CREATE],
            daily_run_quota=100_000,
            max_concurrent_runs=STARTS_A_KEY,
        )
        return [str(self._keys.create(request, "bench").row.key_id) for _ in range(number)]

    def start(self, key_id: str, idempotency_key: str) -> float:
        """Starts a run; returns the seconds that it took."""
        request = runs_pb2.StartRunRequest(
            workflow_id=self.workflow_id,
            idempotency_key=idempotency_key,
            parameters='{"language": "fr"}',
            client_reference="order 7",
            labels={"a": "b"},
        )
        began = time.perf_counter()
        change, answer = self._starts.start(request, Principal(key_id, "bench", "bench"))
        assert not answer(change).replayed
        return time.perf_counter() - began


@contextmanager
def new_database(server: str) -> Iterator[str]:
    """Creates a database; yields its URL."""
    name = f"workflow_api_bench_{getpid()}"
    parts = psycopg.conninfo.conninfo_to_dict(server)
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
        try:
            # libpq's host may be the folder of a socket, which only a URL's query can hold.
            place = urlencode({"host": parts.get("host") or "127.0.0.1", "port": parts.get("port") or 5432})
            yield f"postgresql://{parts.get('user') or 'postgres'}@/{name}?{place}"
        finally:
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


def starts(stage: StartBench, wire: ProxyProcess, milliseconds: float, extent: Extent) -> str:
    """Returns one row of the table: one client alone, then 32 clients over all keys."""
    all_keys = stage.keys(extent.keys)
    alone = stage.keys(-(-extent.alone // STARTS_A_KEY))
    with ThreadPoolExecutor(CLIENTS) as pool:
        # Opens every connection and prepares its statements.
        list(pool.map(lambda n: stage.start(all_keys[n % len(all_keys)], f"warm-{n}"), range(10 * extent.keys)))
        wire.set_delay(milliseconds)
        times = [stage.start(alone[number // STARTS_A_KEY], f"alone-{number}") for number in range(extent.alone)]
        trips = wire.set_delay(milliseconds) / extent.alone
        jobs = [(key, number) for number in range(STARTS_A_KEY - 10) for key in all_keys]
        began, cpu = time.perf_counter(), time.process_time()
        together = sorted(pool.map(lambda job: stage.start(job[0], f"together-{job[1]}"), jobs))
        took, cpu = time.perf_counter() - began, time.process_time() - cpu
        wire.set_delay(0)
    return (
        f"| {milliseconds:.0f} ms | {trips:.2f} | {statistics.median(times) * 1000:.2f} | {len(jobs) / took:.0f} |"
        f" {together[len(together) // 2] * 1000:.1f} | {together[int(len(together) * 0.99)] * 1000:.1f} |"
        f" {cpu / len(jobs) * 1e6:.0f} |"
    )


def table(server: str, extent: Extent) -> Iterator[str]:
    yield f"| wire | round trips | alone, ms | starts/s of {CLIENTS} | p50 ms | p99 ms | CPU µs |"
    yield "|---|---|---|---|---|---|---|"
    with new_database(server) as url:
        wire = ProxyProcess(url)
        try:
            stage = StartBench(wire.url())
            for milliseconds in DELAYS_MS:
                yield starts(stage, wire, milliseconds, extent)
            stage.database.close()
        finally:
            wire.end()


def latency(server: str, number: int) -> str:
    """Measures the time from the answer to a start until its first step runs on an idle worker."""
    with new_database(server) as url, tempfile.TemporaryDirectory() as folder:
        times = [seconds * 1000 for seconds in first_steps(url, Path(folder), number)]
    figures = f"median {statistics.median(times):.0f} ms, worst of {number} {max(times):.0f} ms"
    return f"start answered to first step running, idle: {figures}"


def first_steps(url: str, folder: Path, number: int) -> Iterator[float]:
    """Yields the seconds from each answer until the agent's code runs, both by this machine's wall clock."""
    config = folder / "settings.toml"
    config.write_text(_SETTINGS.format(url=url, objects=folder / "objects"))
    with ExitStack() as stack:
        settings = ("--config", str(config))

        def data(name: str) -> tuple[str, str]:
            return "--data", str(folder / name)

        _, backend = servers.start_part(stack, "backend", "--grpc", "127.0.0.1:0", *data("backend"), *settings)
        servers.start_part(stack, "worker", *data("worker"), *settings)
        edge, ready = servers.start_part(stack, "edge", "--http", "127.0.0.1:0", "--grpc", backend["grpc"], *settings)
        workload = Workload(Server(edge, servers.port_of(ready), backend["grpc"]), _MANIFEST)
        key = workload.keys(1)[0]
        workload.run(key, "Time", "completed")
        for index in range(number):
            time.sleep(_PAUSE_SECONDS)
            path = f"/workflows/{workload.workflow_ids['Time']}/runs"
            status, run = workload.call("POST", path, key, {}, **{"Idempotency-Key": f"first-step-{index}"})
            answered = time.time()
            if status != 201:
                raise RuntimeError(f"start answered {status}: {run}")
            yield workload.wait_for(key, run, "completed")["result"]["at"] - answered


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--quick", action="store_true", help="a short trial, whose figures mean nothing")
    arguments.add_argument("--server", default=SERVER, help="URL of a database to connect to first")
    given = arguments.parse_args()
    extent = QUICK if given.quick else Extent()
    for line in table(given.server, extent):
        print(line, flush=True)
    print(latency(given.server, extent.first_steps))


if __name__ == "__main__":
    main()
