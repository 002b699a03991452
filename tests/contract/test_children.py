"""Children over HTTP: runs that a step of another run started. (docs/flows.md)"""

import pytest

from tests.contract.conftest import NewCaller
from tests.support.admin import Admin
from tests.support.client import Caller

MANIFESTS = """
kind: Agent
name: adder-of-children
type: python
code: |
  def run(context):
      (context.outputs / "sum.txt").write_text(str(context.parameters["total"]))
      return {"sum": context.parameters["total"]}
---
kind: Workflow
name: Child over HTTP
status: active
parameters: [{name: total, type: integer, required: true}]
steps: [{step: add, agent: adder-of-children}]
result: {step: add}
---
kind: Workflow
name: Parent over HTTP
status: active
parameters: [{name: total, type: integer, default: 41}]
steps:
  - {step: below, workflow: Child over HTTP, parameters: {total: "=parameters.total + 1"}}
result: {step: below}
"""


@pytest.fixture(scope="module")
def parent(admin: Admin) -> str:
    """The id of the workflow whose step starts a child."""
    return admin.apply(MANIFESTS)["Parent over HTTP"]


def child_of(caller: Caller, run_id: str) -> str:
    """Returns the child that the events of a run name."""
    started, ended = (each for each in caller.events(run_id)["events"] if each["type"].startswith("child."))
    assert (started["type"], started["step"], ended["type"]) == ("child.started", "below", "child.ended")
    assert started["data"] == {"run_id": ended["data"]["run_id"], "status": "queued", "item_index": None}
    assert ended["data"]["status"] == "completed"
    return str(ended["data"]["run_id"])


def test_a_child_is_read_by_its_id_and_is_in_no_list(caller: Caller, new_caller: NewCaller, parent: str) -> None:
    run = caller.finished(parent, client_reference="ours")
    assert (run["status"], run["result"], run["parent_run_id"]) == ("completed", {"sum": 42}, None)
    child_id = child_of(caller, run["run_id"])
    child = caller.run(child_id)
    assert (child["parent_run_id"], child["client_reference"]) == (run["run_id"], "ours")
    assert (child["triggered_by"], child["parameters"], child["result"]) == ("api_key", {"total": 42}, {"sum": 42})
    (step,) = caller.get(f"/runs/{run['run_id']}/steps").json()["items"]
    assert (step["kind"], step["status"]) == ("workflow", "completed")
    (own,) = caller.get(f"/runs/{child_id}/steps").json()["items"]
    assert (own["step"], own["kind"]) == ("add", "agent")
    assert set(caller.outputs(child_id)) == {"add/sum.txt", "result.json"}
    assert set(caller.outputs(run["run_id"])) == {"result.json"}
    for query in ({}, {"workflow_id": child["workflow_id"]}, {"client_reference": "ours"}):
        assert child_id not in {item["run_id"] for item in caller.get("/runs", **query).json()["items"]}
    assert caller.get("/me").json()["quota_used_today"] == 1
    assert new_caller().get(f"/runs/{child_id}").status == 404


def test_erasing_a_run_erases_its_child(caller: Caller, parent: str) -> None:
    run_id = caller.finished(parent)["run_id"]
    child_id = child_of(caller, run_id)
    assert caller.delete(f"/runs/{run_id}/data").status == 202
    assert caller.run(child_id)["data_purged_at"] is not None
    assert caller.get(f"/runs/{child_id}/steps").status == 404
    assert caller.outputs(child_id) == {}
