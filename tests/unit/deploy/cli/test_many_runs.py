"""Many runs that one command cancels, resumes or erases."""

import json
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from backend.common.errors import ApiError
from tests.unit.deploy.fake_backend import FakeBackend, command
from workflow_api.v1 import errors_pb2, runs_pb2, workflows_pb2

FAILED = runs_pb2.RUN_STATUS_FAILED


def listed(backend: FakeBackend, *run_ids: str, status: runs_pb2.RunStatus.ValueType = FAILED) -> None:
    items = [runs_pb2.RunSummary(run_id=run_id, workflow_name="Digest", status=status) for run_id in run_ids]
    backend.answers["ListRuns"] = runs_pb2.ListRunsResponse(items=items)
    workflow = workflows_pb2.Workflow(workflow_id="wf_1", name="Digest")
    backend.answers["GetWorkflowDefinition"] = workflows_pb2.WorkflowDefinition(workflow=workflow, version=1)


def changes(backend: FakeBackend) -> list[Any]:
    """The requests that change runs."""
    return [request for name, request in backend.requests if name in {"CancelRun", "EraseRunData", "ResumeRun"}]


def done(backend: FakeBackend, *arguments: str) -> Any:
    return command("runs", *arguments, "--grpc", backend.address)


def test_a_dry_run_lists_the_runs_that_the_options_choose_and_changes_none(backend: FakeBackend) -> None:
    listed(backend, "run_1", "run_2", "run_3", "run_4")
    erased = runs_pb2.Run(data_purged_at=Timestamp(seconds=1))
    backend.answers["GetRun"] = [runs_pb2.Run(), runs_pb2.Run(), runs_pb2.Run(resumed_by="run_8"), erased]
    shown = done(backend, "resume", "--workflow", "Digest", "--created-after", "2026-01-01T00:00:00Z", "--dry-run")
    assert [line.split()[0] for line in shown.out.splitlines()] == ["RUN", "run_1", "run_2"]
    request = backend.request("ListRuns")
    assert (list(request.status), request.workflow_id) == ([FAILED], "wf_1")
    assert request.created_after.seconds == 1_767_225_600
    assert not changes(backend)


def test_each_run_is_resumed_once_and_refusals_are_listed(backend: FakeBackend) -> None:
    listed(backend, "run_1", "run_2", "run_3")
    started = runs_pb2.ResumeRunResponse(run=runs_pb2.Run(summary=runs_pb2.RunSummary(run_id="run_9")))
    refusal = ApiError(errors_pb2.ERROR_REASON_QUOTA_EXCEEDED, "The daily quota is used up.")
    backend.answers["GetRun"] = [runs_pb2.Run(), runs_pb2.Run(resumed_by="run_8"), runs_pb2.Run()] * 2
    backend.answers["ResumeRun"] = [started, refusal] * 2
    resumed = done(backend, "resume", "--status", "failed", "--yes")
    assert resumed.code == 1
    assert resumed.out.splitlines()[0] == "1 resumed, 0 skipped, 1 refused."
    assert resumed.out.splitlines()[-1].split(maxsplit=2) == ["run_3", "quota_exceeded", "The daily quota is used up."]
    printed = json.loads(done(backend, "resume", "--status", "failed", "--yes", "--json").out)
    assert printed == {
        "done": [{"run_id": "run_1", "new_run_id": "run_9"}],
        "skipped": [],
        "refused": [{"run_id": "run_3", "code": "quota_exceeded", "message": "The daily quota is used up."}],
        "left": 0,
    }


def test_many_runs_are_cancelled_and_erased_with_their_reason(backend: FakeBackend) -> None:
    listed(backend, "run_1", "run_2", status=runs_pb2.RUN_STATUS_RUNNING)
    backend.answers["CancelRun"] = runs_pb2.CancelRunResponse(status=runs_pb2.RUN_STATUS_CANCELLED)
    assert done(backend, "cancel", "--workflow", "Digest", "--reason", "late", "--yes").out == (
        "2 cancelled or ending, 0 skipped, 0 refused.\n"
    )
    assert [request.reason for request in changes(backend)] == ["late", "late"]
    assert len(backend.request("ListRuns").status) == 3
    backend.answers["EraseRunData"] = runs_pb2.EraseRunDataResponse()
    assert done(backend, "erase", "--status", "completed", "--yes").out == "2 erased, 0 skipped, 0 refused.\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("cancel",), "Name the run to cancel, or choose runs by --workflow"),
        (("erase", "run_1", "--status", "failed"), "choose runs either by RUN_ID or by options"),
        (("erase", "--status", "running", "--yes"), "must be among completed, failed, cancelled, not running"),
        (("resume", "--status", "completed", "--yes"), "must be among failed, cancelled, not completed"),
        (("resume", "--status", "failed", "--wait"), "--wait and --param are for one run"),
        (("cancel", "--status", "queued"), "This would cancel 1 run, and there is no terminal to ask at: give --yes."),
    ],
)
def test_what_chooses_no_runs_or_is_not_confirmed_changes_nothing(
    backend: FakeBackend, arguments: tuple[str, ...], said: str
) -> None:
    listed(backend, "run_1")
    refused = done(backend, *arguments)
    assert refused.code != 0
    assert said in " ".join(refused.err.split())
    assert not changes(backend)
