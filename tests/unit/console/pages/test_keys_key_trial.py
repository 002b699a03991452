from collections.abc import Mapping

import pytest
from google.protobuf.message import Message

from console.pages import keys
from console.routes import PAGES
from console.visit import ADMINISTRATORS, View
from contract.refusals import Refusal
from tests.unit.console.recorded_services import KEY_ID, RecordedServices, key_record, pages_in, viewed
from tests.unit.console.rendered import page_of
from workflow_api.v1.deployment_pb2 import Deployment
from workflow_api.v1.keys_pb2 import AllowedHours
from workflow_api.v1.options_pb2 import SCOPE_RUNS_CREATE
from workflow_api.v1.workflows_pb2 import WORKFLOW_STATUS_ACTIVE, Readiness, Workflow

MORNING = {
    "route": "GET /workflows/{workflow_id}",
    "at": "2001-09-09T09:00",
    "address": "203.0.113.7",
    "workflow_id": "wf_1",
}
READY = Workflow(workflow_id="wf_1", status=WORKFLOW_STATUS_ACTIVE, readiness=Readiness(ready=True))


def view(query: Mapping[str, str], **answers: Message | Refusal) -> View:
    given: dict[str, Message | Refusal] = {
        "KeysService/GetKey": answers.get("key", key_record()),
        "DeploymentService/GetDeployment": Deployment(deployment_id="dep_1", governed=True, api_enabled=True),
        "WorkflowsService/GetWorkflowForKey": answers.get("workflow", READY),
    }
    return viewed(PAGES, "GET", "/keys/{key_id}/try", RecordedServices(given), names={"key_id": KEY_ID}, query=query)


def test_only_administrators_ask() -> None:
    assert all(page.roles == ADMINISTRATORS for page in pages_in(keys))


def test_nothing_is_answered_before_a_route_is_chosen() -> None:
    assert view({}).context["verdicts"] == []


def test_a_call_that_passes_is_answered_yes() -> None:
    assert "Yes, it would pass" in page_of(view(MORNING))


def test_a_call_that_is_refused_is_answered_with_the_reason() -> None:
    hours = key_record(allowed_hours=AllowedHours(start_hour=10, end_hour=18))
    page = page_of(view(MORNING, key=hours))
    assert "No, it would be refused" in page
    assert "09:00 is outside 10:00 to 18:00 UTC." in page


def test_the_workflow_is_asked_of_the_service_in_place_of_the_key() -> None:
    page = page_of(view(MORNING, workflow=Refusal("workflow_not_found", "There is no workflow <i>.")))
    assert "There is no workflow &lt;i&gt;." in page
    unready = Workflow(workflow_id="wf_1", readiness=Readiness(reasons=["The step a has no agent."]))
    assert "Yes, it would pass" in page_of(view(MORNING, workflow=unready))
    record = key_record()
    record.key.scopes.append(SCOPE_RUNS_CREATE)
    start = {**MORNING, "route": "POST /workflows/{workflow_id}/runs"}
    page = page_of(view(start, key=record, workflow=unready))
    assert "No, it would be refused" in page
    assert "The step a has no agent." in page


def test_a_service_that_cannot_be_reached_is_no_answer() -> None:
    with pytest.raises(Refusal, match="runtime_unreachable"):
        view(MORNING, workflow=Refusal("runtime_unreachable"))


def test_a_time_that_cannot_be_read_is_a_problem_of_its_field() -> None:
    wrong = view({**MORNING, "at": "tomorrow"})
    assert wrong.status == 400
    assert "must be a time such as" in page_of(wrong)
