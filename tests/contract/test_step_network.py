"""Access of steps with the network of the machine to the service itself."""

from pathlib import Path

import pytest

from tests.support.service import Service

pytestmark = pytest.mark.long

PROBE = """
kind: Environment
name: online
network: full
status: active
---
kind: Agent
name: probe
type: python
code: |
  import socket
  def reach(family, address):
      try:
          socket.socket(family).connect(address)
      except OSError as error:
          return type(error).__name__
      return "reached"
  def run(context):
      p = context.parameters
      path = bytes.fromhex(p["path"]).decode()
      return {"http": reach(socket.AF_INET, ("127.0.0.1", p["port"])), "grpc": reach(socket.AF_UNIX, path)}
---
kind: Workflow
name: Probe
status: active
parameters: [{name: port, type: integer, required: true}, {name: path, type: string, required: true}]
steps: [{step: probe, agent: probe, environment: online}]
result: {step: probe, schema: {type: object}, schema_version: "1"}
"""


def test_a_step_with_the_network_does_not_reach_grpc_on_a_socket(tmp_path: Path) -> None:
    config = tmp_path / "settings.toml"
    config.write_text('[runtime]\nnetwork = "full"\n')
    path = tmp_path / "run" / "grpc.sock"
    service = Service(tmp_path, "--config", str(config), "--grpc", f"unix:{path}")
    service.start()
    try:
        flows = service.admin.apply(PROBE)
        # The service logs its address as it stands; no log may hold a parameter.
        parameters = {"port": service.address[1], "path": str(path).encode().hex()}
        run = service.new_caller().finished(flows["Probe"], parameters=parameters)
    finally:
        service.stop()
    assert run["status"] == "completed", run
    assert run["result"]["http"] == "reached"
    assert run["result"]["grpc"] != "reached"
    assert "Steps with `network: full`" not in service.log()


def test_a_start_that_exposes_plain_grpc_to_steps_warns(tmp_path: Path) -> None:
    config = tmp_path / "settings.toml"
    config.write_text('[runtime]\nnetwork = "full"\n')
    service = Service(tmp_path, "--config", str(config))
    service.start()
    service.stop()
    assert "Steps with `network: full` can administer this deployment over 127.0.0.1:0" in service.log()
