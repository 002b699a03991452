"""What the service keeps on disk is readable by its own user alone, in both sandbox layers."""

import json
import stat
from pathlib import Path

import pytest

from tests.support.service import Service

pytestmark = pytest.mark.long

WORKFLOW = """
kind: Environment
name: standard
---
kind: Agent
name: leaver
type: python
code: |
  def run(context):
      (context.outputs / "notes").mkdir()
      (context.outputs / "notes" / "a.txt").write_text(context.input_text)
      return {"a": 1}
---
kind: Agent
name: taker
type: python
code: |
  def run(context):
      print("a line of the log")
      return {"text": (context.files / "leave" / "notes" / "a.txt").read_text()}
---
kind: Workflow
name: Leaves and takes
status: active
steps:
  - {step: leave, agent: leaver, environment: standard, needs: []}
  - {step: take, agent: taker, environment: standard, needs: [leave]}
  - {step: look, approval: {title: Look, instructions: Well}, needs: [take]}
result: {step: take}
"""


@pytest.mark.parametrize("layer", ["bwrap", "landlock"])
def test_files_below_the_data_folder_are_readable_by_their_owner_only(tmp_path: Path, layer: str) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o755)
    data.chmod(0o755)
    service = Service(tmp_path, variables={"WORKFLOW_API_RUNTIME_SANDBOX": layer})
    service.start()
    try:
        (workflow_id,) = service.admin.apply(WORKFLOW).values()
        caller = service.new_caller()
        run_id = caller.parked(workflow_id, input_text="kept")["run_id"]
        [approval] = caller.get(f"/runs/{run_id}/approvals").json()["items"]
        service.admin.decide(approval["approval_id"], approve=True)
        run = caller.wait(run_id)
        assert (run["status"], run["result"]) == ("completed", {"text": "kept"}), json.dumps(run)
        paths = [data, *data.rglob("*")]
        assert {path.name for path in paths} > {"workflow-api.sqlite3", "workflow-api.sqlite3-wal", "objects", "work"}
        modes = {str(path): mode for path in paths if (mode := _mode(path)) is not None}
        assert {path: oct(mode) for path, mode in modes.items() if mode & 0o077} == {}
    finally:
        service.stop()


def _mode(path: Path) -> int | None:
    """Returns the permissions of a file; None if it is gone, as the folder of a run that has ended may be."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return None
