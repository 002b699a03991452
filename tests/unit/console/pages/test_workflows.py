import json
from collections.abc import Sequence
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration

from console.visit import ADMINISTRATORS, Redirect, View
from contract.refusals import Refusal
from tests.unit.console.seen import APPROVER, UNSEEN, MemoryServices, answered, html, roles_of
from workflow_api.v1.definitions_pb2 import DefinitionVersion, ListDefinitionVersionsResponse
from workflow_api.v1.keys_pb2 import ApiKey, KeyRecord, ListKeysResponse, WorkflowAccess
from workflow_api.v1.options_pb2 import SCOPE_RUNS_CREATE, SCOPE_RUNS_READ, Scope
from workflow_api.v1.run_lists_pb2 import StepFigures, WorkflowFigures
from workflow_api.v1.schedules_pb2 import ListSchedulesResponse
from workflow_api.v1.workflows_pb2 import (
    WORKFLOW_STATUS_ACTIVE,
    WORKFLOW_STATUS_DRAFT,
    WORKFLOW_STATUS_INACTIVE,
    ListWorkflowsRequest,
    ListWorkflowsResponse,
    Readiness,
    VersionResource,
    Workflow,
    WorkflowDefinition,
    WorkflowStatus,
)

EVIL = f"<script>alert(1)</script>{UNSEEN}"
ONE = "/workflows/{workflow_id}"
HERE = {"workflow_id": "wf_1"}


def workflow(**other: Any) -> Workflow:
    fields: dict[str, Any] = {
        "workflow_id": "wf_1",
        "name": "Digest",
        "status": WORKFLOW_STATUS_ACTIVE,
        "version": 3,
        "readiness": Readiness(ready=True),
    }
    return Workflow(**{**fields, **other})


def services(
    found: Any = None, resources: Sequence[VersionResource] = (), keys: Sequence[KeyRecord] = (), **definition: Any
) -> MemoryServices:
    one = workflow() if found is None else found
    answer = WorkflowDefinition(workflow=one, version=3, definition=json.dumps(definition), resources=resources)
    return MemoryServices(
        {
            "WorkflowsService/GetWorkflowDefinition": answer,
            "WorkflowsService/UpdateWorkflowStatus": one,
            "DefinitionsService/ListDefinitionVersions": ListDefinitionVersionsResponse(
                items=[DefinitionVersion(version=3, created_by="user:ada"), DefinitionVersion(version=2)]
            ),
            "RunListsService/GetWorkflowFigures": WorkflowFigures(),
            "SchedulesService/ListSchedules": ListSchedulesResponse(),
            "KeysService/ListKeys": ListKeysResponse(items=keys),
        }
    )


def test_the_list_has_every_workflow_of_every_status_and_page() -> None:
    def page(request: ListWorkflowsRequest) -> ListWorkflowsResponse:
        assert request.include_inactive
        if not request.page_token:
            return ListWorkflowsResponse(items=[workflow()], next_page_token="c1")
        draft = workflow(name="Second", status=WORKFLOW_STATUS_DRAFT, readiness=Readiness())
        return ListWorkflowsResponse(items=[draft])

    text = html(answered(MemoryServices({"WorkflowsService/ListWorkflows": page}), "GET", "/workflows"))
    assert "Digest" in text
    assert "Second" in text
    assert "not ready" in text


def test_a_workflow_is_shown_with_the_set_that_owns_it() -> None:
    backend = services()
    assert "owns it" not in html(answered(backend, "GET", ONE, HERE))
    answer: Any = backend.answers["WorkflowsService/GetWorkflowDefinition"]
    answer.set_name = "billing"
    assert "Set <strong>billing</strong> owns it" in html(answered(backend, "GET", ONE, HERE))


def test_a_workflow_shows_its_steps_parameters_and_definition() -> None:
    steps = [
        {
            "step": "count",
            "name": "Count",
            "agent": "counter",
            "needs": [],
            "approval": None,
            "optional": True,
            "outputs": False,
        },
        {"step": "check", "approval": {"title": "Check"}, "needs": ["count"]},
        {"step": "pay", "agent": None, "workflow": "Invoice", "version": 3, "needs": ["check"]},
    ]
    parameters = [{"name": "top", "type": "integer", "required": True, "minimum": 1, "default": None}]
    page = html(answered(services(steps=steps, parameters=parameters), "GET", ONE, HERE))
    assert page.count("<rect ") == 3
    assert "counter, optional, no outputs" in page
    assert "workflow Invoice, version 3" in page
    assert "minimum <code>1</code>" in page
    assert "&#34;parameters&#34;: [" in page


def test_values_of_a_workflow_are_escaped() -> None:
    found = workflow(name=EVIL, description=EVIL, readiness=Readiness(reasons=[EVIL]))
    steps = [{"step": EVIL, "name": EVIL, "agent": EVIL, "needs": []}, {"step": "b", "agent": None, "needs": [EVIL]}]
    parameters = [{"name": EVIL, "type": EVIL, "description": EVIL, "default": EVIL, "enum": [EVIL]}]
    resources = [VersionResource(kind=EVIL, name=EVIL)]
    page = html(answered(services(found, resources, steps=steps, parameters=parameters), "GET", ONE, HERE))
    assert "alert(1)" in page
    assert EVIL not in page


def test_the_agents_and_environments_of_the_version_are_shown() -> None:
    resources = [
        VersionResource(kind="Agent", name="counter", id="agt_1", version=7),
        VersionResource(kind="Environment", name="standard"),
    ]
    page = html(answered(services(resources=resources), "GET", ONE, HERE))
    assert '<td><a href="/agents/agt_1?version=7">counter</a></td>\n<td>7</td></tr>' in page
    assert "missing" in page[page.index("<td>Environment</td>") :]


def test_versions_are_shown_with_who_saved_them_and_an_older_one_leads_back_to_it() -> None:
    page = html(answered(services(), "GET", ONE, HERE))
    assert "<td>user:ada</td>" in page
    assert "not recorded" in page
    assert 'href="/workflows/wf_1/compare?before=2&amp;after=3"' in page
    assert 'href="/workflows/wf_1/edit"' in page
    backend = services()
    backend.answers["WorkflowsService/GetWorkflowDefinition"] = WorkflowDefinition(
        workflow=workflow(), version=2, definition="{}"
    )
    assert 'href="/workflows/wf_1/restore?version=2"' in html(
        answered(backend, "GET", ONE, HERE, query={"version": "2"})
    )


def test_figures_say_over_how_many_runs_they_count() -> None:
    backend = services()
    assert "No run of it has ended" in html(answered(backend, "GET", ONE, HERE))
    step = StepFigures(step="count", name=EVIL, ended=8, failed=2, retried=3, median=Duration(seconds=2))
    step.p95.seconds = 70
    figures = WorkflowFigures(
        ended=2000, more=True, completed=1499, failed=500, cancelled=1, step_runs=200, steps=[step]
    )
    figures.median.seconds = 90
    backend.answers["RunListsService/GetWorkflowFigures"] = figures
    page = html(answered(backend, "GET", ONE, HERE))
    shown = ("the newest 2,000", "75 %", "500 failed", "1 min 30 s", "the newest 200 of these runs", "1 min 10 s")
    assert [text for text in shown if text not in page] == []
    assert EVIL not in page


def key(name: str, state: str, *workflows: str, scope: Scope.ValueType = SCOPE_RUNS_CREATE) -> KeyRecord:
    mode = WorkflowAccess.MODE_EXPLICIT if workflows else WorkflowAccess.MODE_ALL_ACTIVE
    access = WorkflowAccess(mode=mode, workflow_ids=workflows)
    return KeyRecord(key=ApiKey(key_id=f"ak_{name}", name=name, scopes=[scope], workflow_access=access), state=state)


def test_the_keys_that_may_start_a_workflow_are_shown_to_administrators() -> None:
    keys = [
        *(key("of-all", "active"), key("listed", "active", "wf_1")),
        *(key("elsewhere", "active", "wf_2"), key("gone", "revoked"), key("reader", "active", scope=SCOPE_RUNS_READ)),
    ]
    page = html(answered(services(keys=keys), "GET", ONE, HERE))
    assert [name for name in ("of-all", "listed", "elsewhere", "gone", "reader") if f">{name}<" in page] == [
        "of-all",
        "listed",
    ]
    backend = services(keys=keys)
    assert ">listed<" not in html(answered(backend, "GET", ONE, HERE, user=APPROVER), APPROVER)
    assert not backend.asked("KeysService/ListKeys")


def test_reasons_why_a_workflow_is_not_ready_are_shown() -> None:
    found = workflow(readiness=Readiness(reasons=["The step count has no agent."]))
    assert "The step count has no agent." in html(answered(services(found), "GET", ONE, HERE))


def test_the_version_that_the_query_names_is_shown() -> None:
    backend = services()
    answered(backend, "GET", ONE, HERE, query={"version": "2"})
    (asked,) = backend.asked("WorkflowsService/GetWorkflowDefinition")
    assert asked.version == 2


@pytest.mark.parametrize("version", ["0", "-1", "x", "1.5", "9" * 30])
def test_an_invalid_version_is_reported_without_a_call(version: str) -> None:
    backend = services()
    answer = answered(backend, "GET", ONE, HERE, query={"version": version})
    assert isinstance(answer, View)
    assert answer.status == 404
    assert not backend.calls


@pytest.mark.parametrize("code", ["workflow_not_found", "version_not_found"])
def test_an_unknown_workflow_is_reported(code: str) -> None:
    backend = services()
    backend.answers["WorkflowsService/GetWorkflowDefinition"] = Refusal(code, "It is not there.")
    answer = answered(backend, "GET", ONE, HERE)
    assert isinstance(answer, View)
    assert answer.status == 404
    assert "It is not there." in html(answer)


@pytest.mark.parametrize(
    ("word", "status"), [("activate", WORKFLOW_STATUS_ACTIVE), ("deactivate", WORKFLOW_STATUS_INACTIVE)]
)
def test_activation_and_deactivation_call_the_service(word: str, status: WorkflowStatus.ValueType) -> None:
    backend = services()
    answer = answered(backend, "POST", f"{ONE}/{word}", HERE)
    assert isinstance(answer, Redirect)
    assert answer.to == "/workflows/wf_1"
    (asked,) = backend.asked("WorkflowsService/UpdateWorkflowStatus")
    assert (asked.workflow, asked.status) == ("wf_1", status)


def test_only_administrators_activate_workflows() -> None:
    assert roles_of("POST", ONE + "/activate") == roles_of("POST", ONE + "/deactivate") == ADMINISTRATORS
    assert "/deactivate" in html(answered(services(), "GET", ONE, HERE))
    assert "/deactivate" not in html(answered(services(), "GET", ONE, HERE, user=APPROVER), APPROVER)


def test_a_workflow_of_hundreds_of_steps_shows_some_of_them_at_a_time() -> None:
    names = [f"step-{number}" for number in range(300)]
    steps = [{"step": name, "name": EVIL, "needs": names[:place]} for place, name in enumerate(names)]
    page = html(answered(services(steps=steps), "GET", ONE, HERE, query={"steps": "2"}))
    assert len(page.encode()) < 100_000
    assert page.count('<g class="step') == 40
    assert '<a href="?version=3&amp;steps=8#version">281 to 300</a>' in page
    assert "The rest is not shown" in page


def test_a_version_shows_the_values_of_its_variables() -> None:
    answers = services(steps=[])
    definition = WorkflowDefinition(
        workflow=workflow(), version=3, definition='{"steps": []}', variables={"STAGE": EVIL, "LONG": "x" * 4_096}
    )
    answers.answers["WorkflowsService/GetWorkflowDefinition"] = definition
    text = html(answered(answers, "GET", ONE, HERE))
    assert "Variables when it was applied" in text
    assert "<code>STAGE</code>" in text
    assert "<script>alert" not in text
    assert f"{'x' * 200}…" in text
    assert "x" * 201 not in text
    assert "Variables when it was applied" not in html(answered(services(steps=[]), "GET", ONE, HERE))
