"""How soon the first step of a run runs after its start was answered: edge, backend and worker on PostgreSQL."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

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

        def part(command: str, *arguments: str, data: bool = True) -> tuple[subprocess.Popen[str], dict[str, Any]]:
            own = ("--data", str(folder / command)) if data else ()
            process = subprocess.Popen(
                [
                    Path(sys.executable).parent / "workflow-api",
                    command,
                    *arguments,
                    *own,
                    "--config",
                    str(config),
                    "--json",
                ],
                stdout=subprocess.PIPE,
                text=True,
            )
            stack.callback(process.wait)
            stack.callback(process.terminate)
            assert process.stdout is not None
            return process, json.loads(process.stdout.readline())

        _, backend = part("backend", "--grpc", "127.0.0.1:0")
        part("worker")
        edge, ready = part("edge", "--http", "127.0.0.1:0", "--grpc", backend["grpc"], data=False)
        scene = Scene(Server(edge, urlsplit(ready["base_address"]).port or 0, backend["grpc"]), _MANIFEST)
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
