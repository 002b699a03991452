from collections.abc import Iterator
from typing import Any

import pytest

from contract import failure_codes
from workflow_api.v1 import (
    deployment_pb2,
    deployment_pb2_grpc,
    outputs_pb2,
    outputs_pb2_grpc,
    runs_pb2,
    runs_pb2_grpc,
)
from workflow_api_testing import TestBackend, test_backend
from workflow_api_testing.scripted_runs import ScriptError


class Caller:
    """A key's view of one run."""

    def __init__(self, backend: TestBackend, workflow_id: str) -> None:
        key = backend.add_key()
        self.runs: Any = backend.stub(runs_pb2_grpc.RunsServiceStub, key=key)
        self.outputs: Any = backend.stub(outputs_pb2_grpc.OutputsServiceStub, key=key)
        request = runs_pb2.StartRunRequest(workflow_id=workflow_id, idempotency_key="order-1")
        self.run_id = self.runs.StartRun(request).run.summary.run_id

    @property
    def run(self) -> Any:
        return self.runs.GetRun(runs_pb2.GetRunRequest(run_id=self.run_id))

    @property
    def status(self) -> str:
        name: str = runs_pb2.RunStatus.Name(self.run.summary.status)
        return name.removeprefix("RUN_STATUS_").lower()

    @property
    def steps(self) -> dict[str, str]:
        listed = self.runs.ListRunSteps(runs_pb2.ListRunStepsRequest(run_id=self.run_id))
        return {item.step: item.status for item in listed.items}

    @property
    def events(self) -> list[str]:
        """The types of the events of the newest segment."""
        return [
            event.type for event in self.runs.ListRunEvents(runs_pb2.ListRunEventsRequest(run_id=self.run_id)).events
        ]


@pytest.fixture
def backend() -> Iterator[TestBackend]:
    with test_backend() as backend:
        yield backend


@pytest.fixture
def caller(backend: TestBackend) -> Caller:
    return Caller(backend, backend.add_workflow())


def decide(backend: TestBackend, approval_id: str, *, approve: bool) -> None:
    people = backend.stub(runs_pb2_grpc.RunsServiceStub, actor="user:bo")
    people.DecideApproval(runs_pb2.DecideApprovalRequest(approval_id=approval_id, approve=approve))


def test_nothing_happens_to_a_run_by_itself(caller: Caller) -> None:
    assert caller.status == "queued"


def test_a_run_goes_from_queued_over_running_to_completed(backend: TestBackend, caller: Caller) -> None:
    backend.begin(caller.run_id)
    assert caller.status == "running"
    backend.progress(caller.run_id, "Half of it", done=5)
    result = {"total": 3, "summary_markdown": "Three."}
    backend.finish_run(caller.run_id, result=result, outputs={"report.csv": "a,b\n"}, warnings=["One page was blank."])
    assert caller.status == "completed"
    assert (caller.run.result, caller.run.summary_markdown) == (
        '{"total":3,"summary_markdown":"Three."}',
        "Three.",
    )
    assert list(caller.run.summary.warnings) == ["One page was blank."]
    listed = caller.outputs.ListOutputs(outputs_pb2.ListOutputsRequest(run_id=caller.run_id))
    assert {item.path for item in listed.items} == {"result.json", "work/report.csv"}
    assert caller.events == [
        "segment.started",
        "run.started",
        "step.started",
        "step.progress",
        "step.completed",
        "output.promoted",
        "output.promoted",
        "run.completed",
        "segment.ended",
    ]


def test_a_run_waits_for_approvals_and_goes_on_after_them(backend: TestBackend) -> None:
    caller = Caller(backend, backend.add_workflow(approvals=["Look", "Look again"]))
    approvals = backend.park(caller.run_id)
    assert (caller.status, len(approvals)) == ("waiting_for_approval", 2)
    for approval_id in approvals:
        decide(backend, approval_id, approve=True)
    backend.finish_run(caller.run_id, result=7)
    assert (caller.status, caller.run.result) == ("completed", "7")


def test_a_rejected_approval_fails_the_run_when_it_goes_on(backend: TestBackend) -> None:
    caller = Caller(backend, backend.add_workflow(approvals=["Look"]))
    [approval_id] = backend.park(caller.run_id)
    decide(backend, approval_id, approve=False)
    backend.begin(caller.run_id)
    assert (caller.status, caller.run.error.code) == ("failed", failure_codes.INVARIANT_BLOCKED)


def test_a_step_that_fails_fails_the_run(backend: TestBackend, caller: Caller) -> None:
    backend.fail(caller.run_id, "No such customer.")
    assert (caller.status, caller.run.error.code) == ("failed", failure_codes.NODE_FAILED)
    assert "No such customer." in caller.run.error.message


@pytest.mark.parametrize("code", [code for code in failure_codes.ALL if code != failure_codes.NODE_FAILED])
def test_a_run_fails_with_any_code_of_the_contract(backend: TestBackend, caller: Caller, code: str) -> None:
    backend.fail(caller.run_id, "It ended.", code=code)
    assert (caller.run.error.code, caller.run.error.message) == (code, "It ended.")


def test_a_run_that_was_asked_to_cancel_ends_as_cancelled_at_the_next_move(
    backend: TestBackend, caller: Caller
) -> None:
    backend.begin(caller.run_id)
    caller.runs.CancelRun(runs_pb2.CancelRunRequest(run_id=caller.run_id))
    assert caller.status == "running"
    backend.finish_run(caller.run_id, result=1)
    assert caller.status == "cancelled"


def test_a_licence_on_hold_fails_the_run(backend: TestBackend, caller: Caller) -> None:
    backend.stub(deployment_pb2_grpc.DeploymentServiceStub).UpdateDeployment(
        deployment_pb2.UpdateDeploymentRequest(licence_state="hold")
    )
    backend.begin(caller.run_id)
    assert caller.run.error.code == failure_codes.LICENSE_UNAVAILABLE


def test_a_result_that_does_not_fit_its_schema_is_told_as_in_production(backend: TestBackend) -> None:
    schema = {"type": "object", "required": ["total"]}
    workflow_id = backend.add_workflow(result={"step": "work", "schema": schema, "schema_version": "1"})
    caller = Caller(backend, workflow_id)
    backend.finish_run(caller.run_id, result={})
    assert caller.run.result_error.code == "result_schema_mismatch"


@pytest.mark.parametrize(
    ("move", "message"),
    [
        (lambda backend, run_id: backend.park(run_id), "No approval is left"),
        (lambda backend, run_id: backend.fail(run_id, code="broken"), "must be one of: node_failed"),
        (lambda backend, run_id: [backend.finish_run(run_id), backend.begin(run_id)], "nothing to execute"),
        (lambda backend, _: backend.begin("run_none"), "does not exist"),
    ],
)
def test_what_no_execution_could_do_is_refused(backend: TestBackend, caller: Caller, move: Any, message: str) -> None:
    with pytest.raises(ScriptError, match=message):
        move(backend, caller.run_id)


@pytest.mark.parametrize(
    "move",
    [TestBackend.finish_run, TestBackend.fail, lambda backend, run_id: backend.progress(run_id, "Half of it")],
    ids=["finish_run", "fail", "progress"],
)
def test_a_run_does_not_go_past_an_approval_and_is_left_as_it_was(backend: TestBackend, move: Any) -> None:
    caller = Caller(backend, backend.add_workflow(approvals=["Look"]))
    with pytest.raises(ScriptError, match="waits for step 'approval-1' first"):
        move(backend, caller.run_id)
    assert caller.status == "queued"


def test_a_result_that_the_workflow_does_not_declare_is_refused(backend: TestBackend) -> None:
    caller = Caller(backend, backend.add_workflow(result=None))
    with pytest.raises(ScriptError, match="declares no result"):
        backend.finish_run(caller.run_id, result=1)
    backend.finish_run(caller.run_id, outputs={"a.txt": "a"})
    assert caller.status == "completed"
