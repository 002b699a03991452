"""Keys, workflows and runs that the measurements read and start."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPConnection
from itertools import count
from typing import Any

import grpc

from benchmarks.servers import Server
from workflow_api.v1 import keys_pb2, keys_pb2_grpc, options_pb2, workflows_pb2, workflows_pb2_grpc

MANIFEST = """
kind: Environment
name: standard
---
kind: Agent
name: one
type: python
code: |
  def run(context):
      return {"words": 1}
---
kind: Agent
name: reporter
type: python
code: |
  def run(context):
      for number in range(200):
          context.progress("working", number=number, of=200)
      return {"events": 200}
---
kind: Workflow
name: One step
status: active
steps: [{step: one, agent: one, environment: standard}]
result: {step: one}
---
kind: Workflow
name: Many events
status: active
steps: [{step: report, agent: reporter, environment: standard}]
---
kind: Agent
name: filer
type: python
code: |
  def run(context):
      for number in range(context.parameters["count"]):
          (context.outputs / f"file-{number}.txt").write_text("x" * 5000)
      return {}
---
kind: Workflow
name: Many files
status: active
parameters: [{name: count, type: integer, required: true}]
steps: [{step: file, agent: filer, environment: standard}]
---
kind: Workflow
name: Parked
status: active
parameters: [{name: language, type: string, enum: [en, fr], default: en}]
steps: [{step: review, approval: {title: Wait}}]
"""

_HELD_SECONDS = 10

_numbers = count()


@dataclass(frozen=True)
class Key:
    """Credentials of one caller."""

    bearer: str
    external_id: str

    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.bearer}", "X-Service-Key-External-Id": self.external_id}

    def get(self, path: str) -> str:
        """Returns the text of a GET request with this key."""
        return f"GET /api/v1{path} HTTP/1.1\r\nHost: localhost\r\n{self._lines()}\r\n"

    def start(self, workflow_id: str, **parameters: str) -> str:
        """Returns the text of a start with a new idempotency key."""
        body = json.dumps({"parameters": parameters, "client_reference": "order 7", "labels": {"a": "b"}})
        return (
            f"POST /api/v1/workflows/{workflow_id}/runs HTTP/1.1\r\nHost: localhost\r\n{self._lines()}"
            f"Idempotency-Key: bench-{next(_numbers)}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}"
        )

    def _lines(self) -> str:
        return "".join(f"{name}: {value}\r\n" for name, value in self.headers().items())


class Workload:
    """A service with applied workflows, and a client for it."""

    def __init__(self, server: Server, manifest: str = "") -> None:
        self.server = server
        self._local = threading.local()
        channel = grpc.insecure_channel(server.grpc)
        self._keys = keys_pb2_grpc.KeysServiceStub(channel)
        workflows = workflows_pb2_grpc.WorkflowsServiceStub(channel)
        file = workflows_pb2.ManifestFile(
            name="bench.yaml", content=f"{MANIFEST}---\n{manifest}" if manifest else MANIFEST
        )
        applied = workflows.ApplyManifests(workflows_pb2.ApplyManifestsRequest(files=[file]))
        self.workflow_ids = {each.name: each.id for each in applied.items if each.kind == "Workflow"}

    def keys(self, number: int) -> list[Key]:
        """Creates keys with the highest limits, and waits until the edge knows them."""
        scopes = [
            options_pb2.SCOPE_WORKFLOWS_READ,
            options_pb2.SCOPE_RUNS_CREATE,
            options_pb2.SCOPE_RUNS_READ,
            options_pb2.SCOPE_OUTPUTS_READ,
        ]
        request = keys_pb2.CreateKeyRequest(
            name="bench", scopes=scopes, rate_limit_rpm=10_000, daily_run_quota=100_000, max_concurrent_runs=100
        )
        made = [self._keys.CreateKey(request) for _ in range(number)]
        keys = [Key(each.key_value, each.external_id) for each in made]
        self.await_keys(keys[-1])
        return keys

    def await_keys(self, *keys: Key) -> None:
        """Waits until the edge knows `keys`."""
        deadline = time.monotonic() + 10
        for key in keys:
            while self.call("GET", "/me", key)[0] != 200:
                if time.monotonic() > deadline:
                    raise RuntimeError("the edge does not know the new keys")
                time.sleep(0.05)

    def call(self, method: str, path: str, key: Key, body: object = None, **headers: str) -> tuple[int, Any]:
        """Makes a call; returns status and parsed body. Each thread has a connection of its own."""
        status, content = self._exchange(method, path, key, body, headers)
        return status, json.loads(content or b"null")

    def size(self, path: str, key: Key) -> int:
        """Returns the size of a successful answer in bytes."""
        status, content = self._exchange("GET", path, key, None, {})
        if status != 200:
            raise RuntimeError(f"{path} answered {status}")
        return len(content)

    def _exchange(self, method: str, path: str, key: Key, body: object, headers: dict[str, str]) -> tuple[int, bytes]:
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        text = None if body is None else json.dumps(body)
        connection.request(method, f"/api/v1{path}", text, headers | key.headers())
        answer = connection.getresponse()
        return answer.status, answer.read()

    def start(self, key: Key, workflow: str, **fields: object) -> Any:
        """Starts a run and returns it."""
        path = f"/workflows/{self.workflow_ids[workflow]}/runs"
        status, run = self.call("POST", path, key, fields, **{"Idempotency-Key": f"workload-{next(_numbers)}"})
        if status != 201:
            raise RuntimeError(f"start answered {status}: {run}")
        return run

    def run(self, key: Key, workflow: str, until: str, **fields: object) -> str:
        """Starts a run and waits for a status; returns its id."""
        return str(self.wait_for(key, self.start(key, workflow, **fields), until)["run_id"])

    def wait_for(self, key: Key, run: Any, until: str) -> Any:
        """Waits for a run until it has a status, by calls that are held until it changes; returns it."""
        deadline = time.monotonic() + 60
        # A held call waits for a change of a run that has not ended, and would miss an earlier one.
        held_seconds = _HELD_SECONDS if until == "completed" else 0
        while run["status"] != until:
            if time.monotonic() > deadline:
                raise RuntimeError(f"run stays {run['status']}")
            _, run = self.call("GET", f"/runs/{run['run_id']}?wait_seconds={held_seconds}", key)
        return run

    def fill(self, keys: list[Key], workflow: str, until: str, each: int) -> list[str]:
        """Executes `each` runs for each key; returns the last run of each key."""
        with ThreadPoolExecutor(8) as pool:
            jobs = [[pool.submit(self.run, key, workflow, until) for _ in range(each)] for key in keys]
            return [runs[-1].result() for runs in jobs if all(run.result() for run in runs)]
