"""A fan-out over HTTP and by command: its record, its events, its files. (contract 16.1, 17.12)"""

import io
import zipfile

from tests.contract.test_command_line import CommandLine, command
from tests.support.client import Caller
from tests.support.service import Service

__all__ = ["command"]

WORKFLOW = """
kind: Agent
name: halver
type: python
code: |
  def run(context):
      if context.item % 2:
          raise ValueError("odd")
      context.progress("halving")
      print("half of", context.item)
      (context.outputs / "half.txt").write_text(str(context.item // 2))
      return context.item // 2
---
kind: Workflow
name: Halves
status: active
steps:
  - {step: half, agent: halver, for_each: "[4, 5, 6]", on_item_failure: collect}
result: {step: half}
"""


def test_a_fan_out_is_one_step_with_items(service: Service, caller: Caller, command: CommandLine) -> None:
    (workflow_id,) = service.admin.apply(WORKFLOW).values()
    run = caller.finished(workflow_id)
    run_id = run["run_id"]
    assert run["result"] == [2, {"error": {"type": "ValueError", "message": "ValueError: odd"}}, 3]
    assert (run["counts"]["steps_total"], run["counts"]["steps_completed"], run["counts"]["outputs"]) == (1, 1, 3)
    (step,) = caller.get(f"/runs/{run_id}/steps").json()["items"]
    assert (step["status"], step["items"]) == ("completed", {"total": 3, "completed": 2, "failed": 1})
    events = caller.events(run_id)["events"]
    completed = [event["data"] for event in events if event["type"] == "step.item_completed"]
    assert sorted(completed, key=lambda data: data["item_index"]) == [
        {"item_index": index, "attempt": 1, "outputs": 1} for index in (0, 2)
    ]
    assert [event["data"] for event in events if event["type"] == "step.item_failed"] == [
        {"item_index": 1, "type": "ValueError", "message": "ValueError: odd", "attempt": 1, "retry_at": None}
    ]
    progress = [event["data"] for event in events if event["type"] == "step.progress"]
    assert sorted(data["item_index"] for data in progress) == [0, 2]
    files = zipfile.ZipFile(io.BytesIO(caller.get(f"/runs/{run_id}/outputs.zip").body))
    assert {name: files.read(name) for name in files.namelist() if name != "result.json"} == {
        "half/0/half.txt": b"2",
        "half/2/half.txt": b"3",
    }
    assert "2/3, 1 failed" in command("runs", "show", run_id).stdout
    assert command("runs", "logs", run_id, "--step", "half/2").stdout.endswith("half of 6\n")
    assert "half of 4" in command("runs", "logs", run_id, "--step", "half").stdout
