import json
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration

from console.visit import OPERATORS, Redirect, View
from contract.refusals import Refusal
from tests.unit.console.rendered import Fields
from tests.unit.console.run_answers import EVIL, summary
from tests.unit.console.seen import Answer, MemoryServices, answered, html, roles_of
from workflow_api.v1.deployment_health_pb2 import StartWait
from workflow_api.v1.runs_pb2 import TRIGGERED_BY_CONSOLE, Run, StartRunResponse
from workflow_api.v1.uploads_pb2 import Upload, UploadedFile
from workflow_api.v1.workflows_pb2 import (
    BrowsedFolder,
    BrowsedObject,
    BrowseInputsResponse,
    Readiness,
    Workflow,
    WorkflowDefinition,
)

HERE = {"workflow_id": "wf_1"}
PATH = "/workflows/{workflow_id}/start"
START = "RunsService/StartRun"
WAIT = "DeploymentHealthService/GetStartWait"
PARAMETERS: list[dict[str, Any]] = [
    {"name": "count", "type": "integer", "required": True},
    {"name": "options", "type": "json"},
    {"name": "documents", "type": "s3_prefix", "connector": "inbox"},
]


def services(start: Answer | None = None, *, reasons: tuple[str, ...] = (), **more: Answer) -> MemoryServices:
    readiness = Readiness(ready=not reasons, reasons=reasons)
    workflow = Workflow(workflow_id="wf_1", name="Digest", version=3, readiness=readiness)
    definition = WorkflowDefinition(
        workflow=workflow, version=3, definition=json.dumps({"parameters": PARAMETERS, "steps": []})
    )
    return MemoryServices(
        {
            "WorkflowsService/GetWorkflowDefinition": definition,
            START: start or StartRunResponse(run=Run(summary=summary(run_id="run_7"))),
            WAIT: StartWait(),
            **{f"WorkflowsService/{name}": answer for name, answer in more.items()},
        }
    )


def sent(backend: MemoryServices, **form: str) -> Any:
    fields = {name.replace("p_", "p."): value for name, value in form.items()}
    return answered(backend, "POST", PATH, HERE, form={"version": "3", "once": "once-1", **fields})


def test_only_operators_start_runs() -> None:
    assert roles_of("GET", PATH) == roles_of("POST", PATH) == OPERATORS


@pytest.mark.parametrize(
    ("wait", "said"),
    [
        (StartWait(probable=Duration(seconds=240)), "A run started now will probably wait about 4 minutes."),
        (StartWait(probable=Duration(seconds=4)), None),
        (StartWait(oldest=Duration(seconds=9)), "Runs wait, and none has begun lately"),
        (Refusal("runtime_error"), None),
    ],
)
def test_a_start_that_will_probably_wait_for_more_than_seconds_says_so(wait: Answer, said: str | None) -> None:
    backend = services()
    backend.answers[WAIT] = wait
    page = html(answered(backend, "GET", PATH, HERE))
    assert said in page if said else 'class="notice"' not in page


def test_a_run_starts_with_the_typed_values_of_the_shown_version() -> None:
    backend = services()
    answer = sent(
        backend,
        p_count="7",
        p_options="[1]",
        input_text=" two\nlines ",
        client_reference="order-7",
        labels="a=b\n\nc = d=e",
    )
    assert answer == Redirect("/runs/run_7", "The run has started.")
    (asked,) = backend.asked(START)
    assert json.loads(asked.parameters) == {"count": 7, "options": [1]}
    assert (asked.workflow_id, asked.version, asked.idempotency_key) == ("wf_1", 3, "once-1")
    assert (asked.input_text, asked.client_reference, dict(asked.labels)) == (
        " two\nlines ",
        "order-7",
        {"a": "b", "c": "d=e"},
    )
    assert asked.triggered_by == TRIGGERED_BY_CONSOLE


def test_what_is_no_value_is_shown_at_its_field_and_nothing_is_started() -> None:
    backend = services()
    answer = sent(backend, p_count="many", p_options="{,}", labels="none")
    page = html(answer)
    assert isinstance(answer, View)
    assert answer.status == 400
    assert 'id="field-p.count-error">must be a whole number' in page
    assert "line 1, column 2" in page
    assert "{,}\n ^" in page
    assert "Line 1 must be of the form name=value." in page
    assert not backend.asked(START)


def test_problems_of_the_service_are_shown_at_their_fields_with_what_was_typed() -> None:
    details = [{"name": "count", "reason": "must be at most 5"}, {"name": "gone", "reason": "is not a parameter"}]
    page = html(sent(services(Refusal("invalid_parameters", details=details)), p_count="7", input_text=EVIL))
    assert 'id="field-p.count-error">must be at most 5' in page
    assert "gone is not a parameter" in page
    assert 'value="7"' in page
    assert EVIL not in page
    page = html(sent(services(Refusal("invalid_request", details=[{"name": "labels.x", "reason": "is too long"}]))))
    assert 'id="field-labels-error">is too long' in page


@pytest.mark.parametrize("code", ["workflow_not_active", "license_unavailable", "idempotency_conflict"])
def test_a_start_that_is_refused_keeps_the_form_with_another_idempotency_key(code: str) -> None:
    page = html(sent(services(Refusal(code)), p_count="7"))
    assert 'role="alert"' in page
    assert 'value="7"' in page
    assert "once-1" not in page


def test_a_start_that_is_still_being_decided_is_sent_again_with_its_idempotency_key() -> None:
    page = html(sent(services(Refusal("idempotency_conflict", retry_after=1)), p_count="7"))
    assert Fields(page).texts["once"] == "once-1"


def test_a_workflow_that_is_not_ready_says_why_and_offers_no_start() -> None:
    page = html(answered(services(reasons=("Agent 'x' is missing.",)), "GET", PATH, HERE))
    assert "Agent &#39;x&#39; is missing." in page
    assert "<button>Start the run</button>" not in page
    assert "<button>Start the run</button>" in html(answered(services(), "GET", PATH, HERE))


def test_object_storage_is_browsed_in_the_form_without_losing_what_was_typed() -> None:
    found = BrowseInputsResponse(
        folders=[BrowsedFolder(name="2026/", uri="s3://b/in/2026/")],
        objects=[BrowsedObject(name=EVIL, size_bytes=7)],
        more=True,
        parent="",
    )
    backend = services(BrowseInputs=found)
    page = html(sent(backend, p_count="7", browse="documents s3://b/in/"))
    (asked,) = backend.asked("WorkflowsService/BrowseInputs")
    assert (asked.parameter, asked.uri, asked.version) == ("documents", "s3://b/in/", 3)
    assert 'name="browse" value="documents s3://b/in/2026/"' in page
    assert 'name="use" value="documents s3://b/in/"' in page
    assert 'value="7"' in page
    assert "There is more than is shown." in page
    assert EVIL not in page
    page = html(sent(backend, p_count="7", use="documents s3://b/in/2026/"))
    assert 'name="p.documents" type="text" value="s3://b/in/2026/"' in page
    assert not backend.asked(START)


def test_what_cannot_be_browsed_is_told() -> None:
    backend = services(BrowseInputs=Refusal("not_found", "There is no connector named 'inbox'."))
    assert "There is no connector named" in html(sent(backend, browse="documents"))


def test_a_workflow_that_there_is_not_is_a_page() -> None:
    backend = services()
    backend.answers["WorkflowsService/GetWorkflowDefinition"] = Refusal("workflow_not_found")
    answer = answered(backend, "GET", PATH, HERE)
    assert isinstance(answer, View)
    assert answer.status == 404


def _upload() -> Upload:
    files = [UploadedFile(number=5, parameter="uploads", name=f"{EVIL}.zip", size_bytes=2_000, files=3, files_bytes=9)]
    return Upload(upload_id="upl_1", files=files)


def test_uploaded_files_are_shown_and_a_start_names_them() -> None:
    backend = services()
    backend.answers["UploadsService/GetUpload"] = _upload()
    page = html(sent(backend, upload="upl_1", p_count="many"))
    assert Fields(page).texts["upload"] == "upl_1"
    assert "3 files, 9 B expanded" in page
    assert EVIL not in page
    assert not backend.asked(START)
    assert isinstance(sent(backend, upload="upl_1", p_count="7"), Redirect)
    assert [asked.upload_id for asked in backend.asked(START)] == ["upl_1"]


def test_buttons_of_files_start_nothing() -> None:
    backend = services()
    backend.answers |= {"UploadsService/GetUpload": _upload(), "UploadsService/RemoveUploadedFile": Upload()}
    for form in ({"attach": "yes"}, {"drop": "5"}, {"drop": "none"}, {"drop": "0"}, {"drop": "9999999999"}):
        assert isinstance(sent(backend, upload="upl_1", p_count="7", **form), View)
    assert [asked.number for asked in backend.asked("UploadsService/RemoveUploadedFile")] == [5]
    assert not backend.asked(START)


def test_an_upload_that_is_gone_is_said_and_nothing_is_started() -> None:
    gone = Refusal("invalid_request", details=[{"name": "upload_id", "reason": "is gone"}])
    backend = services(gone)
    backend.answers["UploadsService/GetUpload"] = Refusal("not_found")
    page = html(sent(backend, upload="upl_1", p_count="7"))
    assert "choose them again" in page
    assert "upload_id" not in page
    assert Fields(page).texts["upload"] == ""


def test_a_form_with_files_that_is_sent_again_leads_to_its_run() -> None:
    backend = services()
    backend.answers["UploadsService/GetUpload"] = Refusal("not_found")
    answer = sent(backend, upload="upl_1", p_count="7")
    assert isinstance(answer, Redirect)
    assert answer.to == "/runs/run_7"
    (asked,) = backend.asked(START)
    assert (asked.idempotency_key, asked.upload_id) == ("once-1", "upl_1")


def test_a_form_that_started_a_run_with_other_files_says_so() -> None:
    backend = services(Refusal("idempotency_conflict"))
    assert "has started a run before" in html(sent(backend, p_count="7"))
