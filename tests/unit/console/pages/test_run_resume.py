"""The page that resumes a run."""

from console.visit import OPERATORS, Redirect, View
from contract.refusals import Refusal
from tests.unit.console.run_answers import HERE, ONE, services, summary
from tests.unit.console.seen import APPROVER, answered, html, roles_of
from workflow_api.v1.runs_pb2 import (
    RUN_STATUS_COMPLETED,
    RUN_STATUS_FAILED,
    ExecutedStep,
    ResumeRunRequest,
    ResumeRunResponse,
    Run,
    RunSummary,
)

PATH = ONE + "/resume"
PLAN = ResumeRunResponse(reused=["roll"], executed=[ExecutedStep(step="last", why="It <failed>.")], version=3)
STARTED = ResumeRunResponse(run=Run(summary=RunSummary(run_id="run_2")), version=3)


def test_a_failed_run_has_the_button_and_only_operators_use_it() -> None:
    assert roles_of("GET", "/runs/{run_id}/resume") == roles_of("POST", "/runs/{run_id}/resume") == OPERATORS
    failed = Run(summary=summary(status=RUN_STATUS_FAILED), resumed_from="run_0", resumed_by="run_2")
    page = html(answered(services(failed), "GET", ONE, HERE))
    assert 'href="/runs/run_1/resume"' in page
    assert 'href="/runs/run_0"' in page
    assert 'href="/runs/run_2"' in page
    assert "/resume" not in html(answered(services(failed), "GET", ONE, HERE, user=APPROVER), APPROVER)
    completed = services(Run(summary=summary(status=RUN_STATUS_COMPLETED)))
    assert "/resume" not in html(answered(completed, "GET", ONE, HERE))


def test_an_interrupted_run_says_why_no_run_resumes_it() -> None:
    lost = Run(summary=summary(status=RUN_STATUS_FAILED, warnings=["It is not resumed automatically: <revoked>."]))
    lost.error.code = "orphaned"
    page = html(answered(services(lost), "GET", ONE, HERE))
    assert "It is not resumed automatically: &lt;revoked&gt;." in page


def test_only_a_run_of_a_key_counts_as_a_start_of_that_key() -> None:
    counts = "It counts as one start of the key"
    of_key = services(Run(summary=summary(), key_id="ak_1"), ResumeRun=PLAN)
    assert counts in html(answered(of_key, "GET", PATH, HERE))
    assert counts not in html(answered(services(ResumeRun=PLAN), "GET", PATH, HERE))


def test_the_page_says_which_steps_are_reused_and_why_the_others_are_executed() -> None:
    backend = services(ResumeRun=PLAN)
    page = html(answered(backend, "GET", PATH, HERE, query={"from": "last"}))
    assert "It &lt;failed&gt;." in page
    assert "Steps of version 3" in page
    assert backend.asked("RunsService/ResumeRun") == [ResumeRunRequest(run_id="run_1", from_step="last", dry_run=True)]


def test_a_form_that_is_sent_starts_the_run_with_its_key() -> None:
    backend = services(ResumeRun=STARTED)
    answer = answered(backend, "POST", PATH, HERE, form={"once": "console-1", "from": ""})
    assert answer == Redirect("/runs/run_2", "The run takes over from run_1.")
    assert backend.asked("RunsService/ResumeRun") == [ResumeRunRequest(run_id="run_1", idempotency_key="console-1")]


def test_a_refusal_is_shown_with_its_fields() -> None:
    refusal = Refusal("invalid_request", details=[{"name": "run_id", "reason": "must have failed"}])
    answer = answered(services(ResumeRun=refusal), "POST", PATH, HERE, form={"once": "console-1"})
    assert isinstance(answer, View)
    assert answer.status == 400
    assert "The request is not valid. run_id must have failed." in html(answer)
