"""How soon the first step of a run runs after its start was answered: edge, backend and worker on PostgreSQL."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from benchmarks import servers
from benchmarks.scene import Scene
from benchmarks.servers import Server

# Longer than the pause between two looks of anything, and no multiple of one.
_PAUSE_SECONDS = 0.237
_MANIFEST = """
kind: Agent
name: teller of the time
type: python
code: |
  import time
  def run(context):
      return {"at": time.time()}
---
kind: Workflow
name: Time
status: active
steps: [{step: tell, agent: teller of the time, environment: standard}]
result: {step: tell}
"""
_SETTINGS = """
backend.database = "{url}"
runtime.engine = "dbos"
objects.folder = "{objects}"
"""


def first_steps(url: str, folder: Path, number: int) -> Iterator[float]:
    """Seconds from each answer until the agent's code runs; the wall clock of this machine tells both."""
    config = folder / "settings.toml"
    config.write_text(_SETTINGS.format(url=url, objects=folder / "objects"))
    with ExitStack() as stack:
        settings = ("--config", str(config))

        def data(name: str) -> tuple[str, str]:
            return "--data", str(folder / name)

        _, backend = servers.part(stack, "backend", "--grpc", "127.0.0.1:0", *data("backend"), *settings)
        servers.part(stack, "worker", *data("worker"), *settings)
        edge, ready = servers.part(stack, "edge", "--http", "127.0.0.1:0", "--grpc", backend["grpc"], *settings)
        scene = Scene(Server(edge, servers.port_of(ready), backend["grpc"]), _MANIFEST)
        key = scene.keys(1)[0]
        scene.run(key, "Time", "completed")
        for index in range(number):
            time.sleep(_PAUSE_SECONDS)
            path = f"/workflows/{scene.workflow_ids['Time']}/runs"
            status, run = scene.call("POST", path, key, {}, **{"Idempotency-Key": f"first-step-{index}"})
            answered = time.time()
            if status != 201:
                raise RuntimeError(f"start answered {status}: {run}")
            yield scene.ended(key, run, "completed")["result"]["at"] - answered
