"""Measures the time from the answer to a start until the first step runs: edge, backend and worker on PostgreSQL."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from benchmarks import servers
from benchmarks.servers import Server
from benchmarks.workload import Workload

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


def first_steps(url: str, folder: Path, number: int) -> Iterator[float]:
    """Yields the seconds from each answer until the agent's code runs, both by this machine's wall clock."""
    config = folder / "settings.toml"
    config.write_text(_SETTINGS.format(url=url, objects=folder / "objects"))
    with ExitStack() as stack:
        settings = ("--config", str(config))

        def data(name: str) -> tuple[str, str]:
            return "--data", str(folder / name)

        _, backend = servers.part(stack, "backend", "--grpc", "127.0.0.1:0", *data("backend"), *settings)
        servers.part(stack, "worker", *data("worker"), *settings)
        edge, ready = servers.part(stack, "edge", "--http", "127.0.0.1:0", "--grpc", backend["grpc"], *settings)
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
