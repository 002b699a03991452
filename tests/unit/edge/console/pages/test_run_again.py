import json

from google.protobuf.timestamp_pb2 import Timestamp

from edge.console.visit import ADMINISTRATORS, Redirect, View
from edge.errors import Refusal
from tests.unit.edge.console.rendered import Fields
from tests.unit.edge.console.run_answers import EVIL, HERE, services, summary
from tests.unit.edge.console.seen import answered, html, roles_of
from workflow_api.v1.pii_policy_pb2 import PII_MODE_REDACT, PII_STAGE_STEPS, PiiPolicy
from workflow_api.v1.runs_pb2 import TRIGGERED_BY_CONSOLE, Run, StartRunResponse

PAGE = "/runs/{run_id}/again"
POLICY = PiiPolicy(mode=PII_MODE_REDACT, stages=[PII_STAGE_STEPS])
RUN = Run(
    summary=summary(client_reference="order-7", labels={"team": "blue"}),
    parameters='{"top": 3}',
    input_text=f" a\n{EVIL}",
    pii_policy=POLICY,
)
STARTED = StartRunResponse(run=Run(summary=summary(run_id="run_2")))
FORM = {
    "parameters": '{"top": 5}',
    "input_text": " a\r\nb",
    "labels": "team = red\n",
    "version": "2",
    "idempotency_key": "k",
}


def test_the_form_holds_the_inputs_of_the_run() -> None:
    page = html(answered(services(RUN), "GET", PAGE, HERE))
    fields = Fields(page)
    assert json.loads(fields.texts["parameters"]) == {"top": 3}
    assert fields.texts["input_text"] == f" a\n{EVIL}"
    assert (fields.texts["client_reference"], fields.texts["labels"]) == ("order-7", "team=blue")
    assert (fields.chosen["version"], fields.chosen["keeps_policy"]) == (["2"], ["yes"])
    assert EVIL not in page
    assert roles_of("GET", PAGE) == roles_of("POST", PAGE) == ADMINISTRATORS


def test_a_run_is_started_with_edited_inputs_and_the_policy_of_the_first() -> None:
    backend = services(RUN, StartRun=STARTED)
    answer = answered(backend, "POST", PAGE, HERE, form={**FORM, "keeps_policy": "yes"})
    assert answer == Redirect("/runs/run_2", "The run is started.")
    (asked,) = backend.asked("RunsService/StartRun")
    assert (asked.workflow_id, asked.version, asked.idempotency_key) == ("wf_1", 2, "k")
    assert (asked.parameters, asked.input_text, dict(asked.labels)) == ('{"top": 5}', " a\nb", {"team": "red"})
    assert asked.triggered_by == TRIGGERED_BY_CONSOLE
    assert json.loads(asked.pii_policy_override)["mode"] == "redact"
    answered(backend, "POST", PAGE, HERE, form={**FORM, "version": ""})
    assert not backend.asked("RunsService/StartRun")[1].HasField("pii_policy_override")
    assert not backend.asked("RunsService/StartRun")[1].HasField("version")


def test_what_cannot_be_read_is_told_at_its_field_and_starts_nothing() -> None:
    backend = services(RUN, StartRun=STARTED)
    form = {**FORM, "parameters": '{"a": }', "labels": "blue", "version": "x"}
    answer = answered(backend, "POST", PAGE, HERE, form=form)
    assert isinstance(answer, View)
    assert answer.status == 400
    assert Fields(html(answer)).errors == {
        "parameters": "is no JSON: Expecting value, line 1, column 7",
        "labels": "must have a line name=value for each label",
        "version": "must be a whole number from 1",
    }
    assert not backend.asked("RunsService/StartRun")


def test_what_the_service_refuses_is_told_and_the_typed_stays() -> None:
    wrong = Refusal("invalid_parameters", details=[{"name": "top", "reason": "must be at most 4"}])
    page = html(answered(services(RUN, StartRun=wrong), "POST", PAGE, HERE, form=FORM))
    assert Fields(page).errors == {"parameters": "top must be at most 4"}
    assert Fields(page).texts["parameters"] == '{"top": 5}'
    held = Refusal("workflow_not_active", "It is not active.")
    assert "It is not active." in html(answered(services(RUN, StartRun=held), "POST", PAGE, HERE, form=FORM))


def test_an_erased_run_cannot_be_run_again() -> None:
    run = Run(summary=summary(), data_purged_at=Timestamp(seconds=1))
    answer = answered(services(run), "GET", PAGE, HERE)
    assert isinstance(answer, View)
    assert answer.status == 404
