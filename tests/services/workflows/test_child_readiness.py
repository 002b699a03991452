"""Workflows that name workflows: why they are not ready, who uses whom, and what keeps one from being deleted."""

import json
from typing import Any

import pytest

from tests.services.calls import Caller, RefusedError
from workflow_api.v1 import definitions_pb2, workflows_pb2
from workflow_api_testing import TestBackend


@pytest.fixture
def call(backend: TestBackend) -> Caller:
    return Caller.of_backend(backend)


def workflow(name: str, *children: str, status: str = "active", **fields: Any) -> str:
    steps: list[dict[str, Any]] = [
        {"step": f"s{number}", "workflow": child, **fields} for number, child in enumerate(children)
    ]
    steps = steps or [{"step": "gate", "approval": {"title": "Look"}}]
    return json.dumps({"kind": "Workflow", "name": name, "status": status, "steps": steps})


def reasons(backend: TestBackend, call: Caller, *manifests: str) -> list[str]:
    """Applies manifests and returns why the last of them is not ready, as two calls agree."""
    name = json.loads(manifests[-1])["name"]
    workflow_id = backend.apply("\n---\n".join(manifests))[name]
    read = call("GetWorkflow", workflows_pb2.GetWorkflowRequest(workflow_id=workflow_id))
    return list(read.readiness.reasons)


def test_a_workflow_whose_child_is_ready_is_ready(backend: TestBackend, call: Caller) -> None:
    assert reasons(backend, call, workflow("Child"), workflow("Parent", "Child")) == []


@pytest.mark.parametrize(
    ("child", "fields", "reason"),
    [
        (None, {}, "Step 's0' names the workflow 'Child', which does not exist."),
        (workflow("Child", status="draft"), {}, "Workflow 'Child' of step 's0' is not active."),
        (workflow("Child"), {"version": 7}, "Workflow 'Child' of step 's0' has no version 7."),
        (
            json.dumps({"kind": "Workflow", "name": "Child", "status": "active", "steps": [{"step": "work"}]}),
            {},
            "Workflow 'Child' of step 's0' is not ready: Step 'work' has no agent.",
        ),
    ],
)
def test_a_workflow_whose_child_cannot_run_says_why(
    backend: TestBackend, call: Caller, child: str | None, fields: dict[str, Any], reason: str
) -> None:
    given = [workflow("Parent", "Child", **fields)]
    assert reasons(backend, call, *([child] if child else []), *given) == [reason]


def test_workflows_that_start_one_another_in_a_circle_are_not_ready(backend: TestBackend, call: Caller) -> None:
    backend.apply(workflow("A"))
    (reason,) = reasons(backend, call, workflow("B", "A"), workflow("A", "B"))
    assert reason == ("Workflow 'B' of step 's0' is not ready: Workflow 'A' of step 's0' would start itself for ever.")


def test_a_version_of_a_workflow_that_does_not_lead_back_is_no_circle(backend: TestBackend, call: Caller) -> None:
    backend.apply(workflow("A"))
    assert reasons(backend, call, workflow("B", "A", version=1), workflow("A", "B")) == []


def test_a_workflow_may_nest_three_deep_and_no_deeper(backend: TestBackend, call: Caller) -> None:
    chain = [workflow("0"), *(workflow(str(number), str(number - 1)) for number in range(1, 5))]
    assert reasons(backend, call, *chain[:4]) == []
    (reason,) = reasons(backend, call, *chain)
    assert reason.endswith("Workflow '0' of step 's0' would be started more than 3 deep.")


def test_a_report_of_an_apply_says_why_a_parent_is_not_ready(call: Caller) -> None:
    file = workflows_pb2.ManifestFile(name="test.yaml", content=workflow("Parent", "Nothing"))
    (applied,) = call("ApplyManifests", workflows_pb2.ApplyManifestsRequest(files=[file])).items
    assert list(applied.not_ready) == ["Step 's0' names the workflow 'Nothing', which does not exist."]


def test_a_workflow_that_others_start_is_not_deleted(backend: TestBackend, call: Caller) -> None:
    backend.apply("\n---\n".join([workflow("Child"), workflow("Parent", "Child")]))
    with pytest.raises(RefusedError) as refused:
        call("DeleteDefinition", definitions_pb2.DeleteDefinitionRequest(kind="Workflow", definition="Child"))
    assert "it is used by workflow 'Parent'" in refused.value.message
    uses = call("ListDefinitionUses", definitions_pb2.ListDefinitionUsesRequest(kind="Workflow", definition="Child"))
    assert [use.workflow_name for use in uses.items] == ["Parent"]
    call("DeleteDefinition", definitions_pb2.DeleteDefinitionRequest(kind="Workflow", definition="Parent"))
    call("DeleteDefinition", definitions_pb2.DeleteDefinitionRequest(kind="Workflow", definition="Child"))
