"""Workflows that change: versions, and changes of status during runs. (contract 23.10 to 23.13)"""

import uuid
from typing import Any

import pytest

from tests.support.client import Caller
from tests.support.expect import invalid, refused
from tests.support.service import Service

TWICE_SAVED = """
kind: Workflow
name: {name}
status: active
parameters:
  - {{name: {parameter}, type: string}}
steps:
  - {{step: hush, agent: nothing, environment: standard}}
"""

NUMBER = """
kind: Agent
name: {name}
type: python
code: |
  def run(context):
      return {number}
---
kind: Workflow
name: {name}
status: active
steps:
  - {{step: number, agent: {name}, environment: standard}}
result: {{step: number}}
"""


@pytest.fixture
def maker(changing_service: Service) -> Caller:
    return changing_service.new_caller()


@pytest.fixture
def twice_saved(changing_service: Service) -> str:
    """A workflow whose first version declares `old`, its second `new`."""
    name = f"Twice {uuid.uuid4().hex}"
    [first] = changing_service.admin.apply(TWICE_SAVED.format(name=name, parameter="old")).values()
    [second] = changing_service.admin.apply(TWICE_SAVED.format(name=name, parameter="new")).values()
    assert first == second
    return first


def test_a_save_makes_a_new_version_the_active_one(maker: Caller, twice_saved: str) -> None:
    assert maker.get(f"/workflows/{twice_saved}").json()["version"] == 2
    answer = maker.get(f"/workflows/{twice_saved}/parameters").json()
    assert (answer["version"], [parameter["name"] for parameter in answer["parameters"]]) == (2, ["new"])


def test_applying_the_same_again_makes_no_version(changing_service: Service, maker: Caller, twice_saved: str) -> None:
    name = maker.get(f"/workflows/{twice_saved}").json()["name"]
    changing_service.admin.apply(TWICE_SAVED.format(name=name, parameter="new"))
    assert maker.get(f"/workflows/{twice_saved}").json()["version"] == 2


def test_a_run_uses_the_active_version_unless_another_is_asked_for(maker: Caller, twice_saved: str) -> None:
    new: dict[str, Any] = {"parameters": {"new": "x"}}
    old: dict[str, Any] = {"parameters": {"old": "x"}}
    assert maker.start(twice_saved, **new).json()["version"] == 2
    assert maker.start(twice_saved, version=1, **old).json()["version"] == 1
    invalid(maker.start(twice_saved, **old), "old", code="invalid_parameters")
    invalid(maker.start(twice_saved, version=1, **new), "new", code="invalid_parameters")
    refused(maker.start(twice_saved, version=3, **new), 422, "version_not_found")


def test_a_changed_agent_makes_a_version_and_runs_of_the_one_before_keep_theirs(
    changing_service: Service, maker: Caller
) -> None:
    name = f"number-{uuid.uuid4().hex}"
    [workflow_id] = changing_service.admin.apply(NUMBER.format(name=name, number=1)).values()
    first = maker.start(workflow_id).json()["run_id"]
    changing_service.admin.apply(NUMBER.format(name=name, number=2).partition("---")[0])
    assert maker.get(f"/workflows/{workflow_id}").json()["version"] == 2
    second = maker.start(workflow_id).json()["run_id"]
    again = maker.start(workflow_id, version=1).json()["run_id"]
    runs = [maker.wait(run_id) for run_id in (first, second, again)]
    assert [(run["version"], run["result"]) for run in runs] == [(1, 1), (2, 2), (1, 1)]


def test_a_replay_answers_though_the_workflow_is_now_inactive(
    changing_service: Service, maker: Caller, twice_saved: str
) -> None:
    key = uuid.uuid4().hex
    run_id = maker.start(twice_saved, key).json()["run_id"]
    changing_service.admin.set_workflow_status(twice_saved, active=False)
    refused(maker.start(twice_saved), 409, "workflow_not_active")
    refused(maker.get(f"/workflows/{twice_saved}"), 409, "workflow_not_active")
    replay = maker.start(twice_saved, key)
    assert (replay.status, replay.json()["run_id"]) == (200, run_id)
    assert maker.wait(run_id)["status"] == "completed"
    changing_service.admin.set_workflow_status(twice_saved, active=True)
    assert maker.start(twice_saved).status == 201


def test_an_inactive_workflow_leaves_the_list_and_comes_back(
    changing_service: Service, maker: Caller, twice_saved: str
) -> None:
    name = maker.get(f"/workflows/{twice_saved}").json()["name"]
    changing_service.admin.set_workflow_status(twice_saved, active=False)
    assert maker.get("/workflows", q=name).json()["items"] == []
    changing_service.admin.set_workflow_status(twice_saved, active=True)
    assert len(maker.get("/workflows", q=name).json()["items"]) == 1


def test_pages_of_workflows_are_complete_while_workflows_are_added(changing_service: Service, maker: Caller) -> None:
    prefix = uuid.uuid4().hex
    names = [f"{prefix} {number:02}" for number in range(10)]
    changing_service.admin.apply("---".join(TWICE_SAVED.format(name=name, parameter="p") for name in names))
    seen: list[str] = []
    cursor = ""
    while cursor is not None:
        page = maker.get("/workflows", q=prefix, limit=3, cursor=cursor).json()
        seen += [item["name"] for item in page["items"]]
        cursor = page["next_cursor"]
        changing_service.admin.apply(TWICE_SAVED.format(name=f"{prefix} 00 {len(seen)}", parameter="p"))
    assert [name for name in seen if name in names] == names
    assert len(seen) == len(set(seen))


def test_versions_asked_for_by_an_explicit_key(changing_service: Service, twice_saved: str) -> None:
    caller = changing_service.new_caller(workflow_ids=[twice_saved])
    assert caller.start(twice_saved, version=1).status == 201
