"""The form that starts a run, filled from an earlier run."""

import json
from typing import Any

import pytest
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from console.visit import View
from contract.refusals import Refusal
from tests.unit.console.rendered import Fields
from tests.unit.console.run_answers import EVIL, summary
from tests.unit.console.seen import Answer, MemoryServices, answered, html
from workflow_api.v1.deployment_health_pb2 import StartWait
from workflow_api.v1.pii_policy_pb2 import PII_MODE_OFF, PII_MODE_REDACT, PII_STAGE_STEPS, PiiPolicy
from workflow_api.v1.runs_pb2 import Run, StartRunResponse
from workflow_api.v1.workflows_pb2 import Readiness, Workflow, WorkflowDefinition

HERE = {"workflow_id": "wf_1"}
PATH = "/workflows/{workflow_id}/start"
START = "RunsService/StartRun"
ACTIVE = 3
PARAMETERS: dict[int, list[dict[str, Any]]] = {
    2: [{"name": "top", "type": "integer", "required": True}, {"name": "old", "type": "string"}],
    ACTIVE: [{"name": "top", "type": "integer", "required": True}, {"name": "new", "type": "string"}],
}
REDACTING = PiiPolicy(mode=PII_MODE_REDACT, stages=[PII_STAGE_STEPS])
RUN = Run(
    summary=summary(client_reference="order-7", labels={"team": "blue"}),
    parameters='{"top": 3, "old": "kept"}',
    input_text=f" a\n{EVIL}",
    pii_policy=REDACTING,
)


def services(run: Answer = RUN, *, reasons: tuple[str, ...] = ()) -> MemoryServices:
    workflow = Workflow(
        workflow_id="wf_1", name="Digest", version=ACTIVE, readiness=Readiness(ready=not reasons, reasons=reasons)
    )

    def definition(asked: Any) -> Message:
        version = asked.version if asked.HasField("version") else ACTIVE
        return WorkflowDefinition(
            workflow=workflow, version=version, definition=json.dumps({"parameters": PARAMETERS[version]})
        )

    started = StartRunResponse(run=Run(summary=summary(run_id="run_7")))
    return MemoryServices(
        {
            "WorkflowsService/GetWorkflowDefinition": definition,
            "RunsService/GetRun": run,
            START: started,
            "DeploymentHealthService/GetStartWait": StartWait(),
        }
    )


def filled(backend: MemoryServices) -> str:
    return html(answered(backend, "GET", PATH, HERE, query={"run": "run_1"}))


def resent(backend: MemoryServices, page: str, *, pressed: str = "", **typed: str) -> Any:
    """Sends the form of a page as a browser does, with other texts in some fields; `pressed` is the version to take."""
    fields = Fields(page)
    form = {**fields.texts, **{name: values[0] for name, values in fields.chosen.items()}}
    form |= {name.replace("p_", "p."): text for name, text in typed.items()}
    if pressed:
        form["take"] = pressed
    return answered(backend, "POST", PATH, HERE, form=form)


def test_the_form_holds_inputs_version_and_policy_of_the_run() -> None:
    page = filled(services())
    fields = Fields(page)
    assert (fields.texts["p.top"], fields.texts["p.old"], fields.texts["version"]) == ("3", "kept", "2")
    assert fields.texts["input_text"] == f" a\n{EVIL}"
    assert (fields.texts["client_reference"], fields.texts["labels"]) == ("order-7", "team=blue")
    assert fields.chosen["keeps_policy"] == ["yes"]
    assert EVIL not in page
    assert 'href="/runs/run_1"' in page


def test_a_run_is_started_with_edited_inputs_and_the_policy_of_the_first() -> None:
    backend = services()
    page = filled(backend)
    resent(backend, page, p_top="5")
    resent(backend, page, p_top="5", keeps_policy="")
    kept, without = backend.asked(START)
    assert (kept.workflow_id, kept.version, json.loads(kept.parameters)) == ("wf_1", 2, {"top": 5, "old": "kept"})
    policy = json.loads(kept.pii_policy_override)
    assert (policy["mode"], policy["stages"]) == ("redact", ["steps"])
    assert not without.HasField("pii_policy_override")


def test_a_form_that_is_sent_twice_carries_one_idempotency_key() -> None:
    backend = services()
    page = filled(backend)
    resent(backend, page)
    resent(backend, page)
    resent(backend, filled(backend))
    first, second, of_another_form = backend.asked(START)
    assert first == second
    assert first.idempotency_key != of_another_form.idempotency_key


def test_another_version_shows_its_fields_with_what_was_typed_and_starts_nothing() -> None:
    backend = services()
    page = html(resent(backend, filled(backend), pressed="3", p_top="8", labels="team=red", keeps_policy=""))
    fields = Fields(page)
    assert (fields.texts["version"], fields.texts["p.top"], fields.texts["labels"]) == ("3", "8", "team=red")
    assert "p.old" not in fields.texts
    assert "keeps_policy" not in fields.chosen
    back = Fields(html(resent(backend, page, pressed="2")))
    assert (back.texts["version"], back.texts["p.top"], back.texts["p.old"]) == ("2", "8", "kept")
    assert not backend.asked(START)
    resent(backend, page, p_new="x")
    (asked,) = backend.asked(START)
    assert (asked.version, json.loads(asked.parameters)) == (3, {"top": 8, "new": "x"})


def test_versions_are_offered_where_the_run_had_another_than_the_active_one() -> None:
    backend = services()
    page = filled(backend)
    assert "Take version 3, the active one" in page
    assert "Take version 2, that of the run" in html(resent(backend, page, pressed="3"))
    assert "Take version" not in filled(services(Run(summary=summary(version=ACTIVE), parameters='{"top": 1}')))


def test_another_version_can_be_started_where_the_active_one_is_not_ready() -> None:
    backend = services(reasons=("Agent x is missing.",))
    page = filled(backend)
    assert "<button>Start the run</button>" in page
    assert "Agent x is missing." in html(resent(backend, page, pressed="3"))


def test_refusals_keep_what_was_typed_and_the_policy() -> None:
    backend = services()
    page = filled(backend)
    backend.answers[START] = Refusal("policy_not_tightening", "Its mode is looser.")
    again = html(resent(backend, page, p_top="5"))
    assert "Its mode is looser." in again
    assert (Fields(again).texts["p.top"], Fields(again).chosen["keeps_policy"]) == ("5", ["yes"])
    assert Fields(again).texts["run"] == "run_1"


def test_a_run_without_a_policy_that_sweeps_offers_none() -> None:
    backend = services(Run(summary=summary(), parameters='{"top": 1}', pii_policy=PiiPolicy(mode=PII_MODE_OFF)))
    page = filled(backend)
    assert "PII policy" not in page
    resent(backend, page, keeps_policy="yes")
    assert not backend.asked(START)[0].HasField("pii_policy_override")


@pytest.mark.parametrize(
    ("run", "told"),
    [
        (Refusal("run_not_found", "There is no such run."), "There is no such run."),
        (Run(summary=summary(), data_purged_at=Timestamp(seconds=1)), "is erased"),
        (Run(summary=summary(workflow_id="wf_2")), "of another workflow"),
    ],
    ids=["unknown", "erased", "of another workflow"],
)
def test_a_run_whose_inputs_cannot_be_had_is_a_page_that_says_so(run: Answer, told: str) -> None:
    answer = answered(services(run), "GET", PATH, HERE, query={"run": "run_1"})
    assert isinstance(answer, View)
    assert answer.status == 404
    assert told in html(answer)
