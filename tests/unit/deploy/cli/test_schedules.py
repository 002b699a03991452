"""`workflow-api schedules`, and planned starts of `workflow-api runs start`."""

import json

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from tests.unit.deploy.fake_backend import FakeBackend, command
from workflow_api.v1 import runs_pb2, schedules_pb2, workflows_pb2


@pytest.fixture
def schedule() -> schedules_pb2.Schedule:
    return schedules_pb2.Schedule(
        schedule_id="sch_1",
        workflow_id="wf_1",
        workflow_name="Month end",
        name="nightly",
        cron="0 2 * * *",
        timezone="Europe/Madrid",
        overlap="skip",
        catch_up="none",
        next_times=[Timestamp(seconds=1_790_000_000)],
        last=schedules_pb2.ScheduleDecision(
            outcome=schedules_pb2.SCHEDULE_OUTCOME_STARTED, decided_at=Timestamp(seconds=1_789_000_000), run_id="run_1"
        ),
    )


def test_the_list_shows_next_times_and_the_last_outcome(backend: FakeBackend, schedule: schedules_pb2.Schedule) -> None:
    backend.answers["ListSchedules"] = schedules_pb2.ListSchedulesResponse(items=[schedule])
    listed = command("schedules", "list", "--workflow", "Month end", "--grpc", backend.address)
    assert listed.code == 0, listed.err
    assert "nightly" in listed.out
    assert backend.request("ListSchedules").workflow == "Month end"
    as_json = command("schedules", "list", "--grpc", backend.address, "--json")
    (item,) = json.loads(as_json.out)["items"]
    assert (item["name"], len(item["next_times"]), item["last"]["outcome"]) == ("nightly", 1, "started")


@pytest.mark.parametrize(("word", "rpc"), [("pause", "PauseSchedule"), ("resume", "ResumeSchedule")])
def test_a_schedule_is_paused_and_resumed_by_name(
    backend: FakeBackend, schedule: schedules_pb2.Schedule, word: str, rpc: str
) -> None:
    backend.answers[rpc] = schedule
    done = command("schedules", word, "Month end", "nightly", "--grpc", backend.address)
    assert done.code == 0, done.err
    request = backend.request(rpc)
    assert (request.workflow, request.name) == ("Month end", "nightly")
    assert "run_1" in done.out


def test_a_trigger_prints_the_run(backend: FakeBackend) -> None:
    run = runs_pb2.Run(summary=runs_pb2.RunSummary(run_id="run_7"))
    backend.answers["TriggerSchedule"] = runs_pb2.StartRunResponse(run=run)
    done = command("schedules", "trigger", "Month end", "nightly", "--grpc", backend.address)
    assert (done.code, done.out) == (0, "run_7\n")
    assert backend.request("TriggerSchedule").idempotency_key


def test_a_planned_start_is_cancelled_by_its_id(backend: FakeBackend) -> None:
    backend.answers["CancelPlannedStart"] = schedules_pb2.CancelPlannedStartResponse()
    assert command("schedules", "cancel", "sch_1", "--grpc", backend.address).code == 0
    assert backend.request("CancelPlannedStart").schedule_id == "sch_1"


def test_a_start_at_a_time_is_planned(backend: FakeBackend, schedule: schedules_pb2.Schedule) -> None:
    backend.answers["GetWorkflowDefinition"] = workflows_pb2.WorkflowDefinition(
        workflow=workflows_pb2.Workflow(workflow_id="wf_1"), definition='{"parameters": []}'
    )
    backend.answers["PlanStart"] = schedule
    words = ("runs", "start", "Month end", "--at", "2026-10-01T02:00:00+02:00")
    done = command(*words, "--grpc", backend.address, "--json")
    assert done.code == 0, done.err
    request = backend.request("PlanStart")
    assert (request.start.workflow_id, request.at.ToJsonString()) == ("wf_1", "2026-10-01T00:00:00Z")
    assert json.loads(done.out)["schedule_id"] == "sch_1"
    refused = command(*words, "--wait", "--grpc", backend.address)
    assert (refused.code, "--at" in refused.err) == (2, True)
    assert command("runs", "start", "x", "--at", "tomorrow", "--grpc", backend.address).code == 2
