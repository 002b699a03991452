"""The page of schedules."""

from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from console.visit import ONLOOKERS, OPERATORS, Redirect
from tests.unit.console.seen import APPROVER, MemoryServices, answered, html, roles_of
from workflow_api.v1 import schedules_pb2
from workflow_api.v1.runs_pb2 import Run, RunSummary, StartRunResponse
from workflow_api.v1.users_pb2 import ROLE_VIEWER, User

VIEWER = User(name="vi", role=ROLE_VIEWER)
NAMES = {"workflow_id": "wf_1", "name": "nightly"}


def at(seconds: int) -> Timestamp:
    return Timestamp(seconds=seconds)


def schedule(**fields: Any) -> schedules_pb2.Schedule:
    given: dict[str, Any] = {
        "schedule_id": "sch_1",
        "workflow_id": "wf_1",
        "workflow_name": "Month <end>",
        "name": "nightly",
        "cron": "0 2 * * *",
        "timezone": "Europe/Madrid",
        "overlap": "skip",
        "catch_up": "none",
        "next_times": [at(1_790_000_000 + day * 86_400) for day in range(5)],
        "last": schedules_pb2.ScheduleDecision(
            outcome=schedules_pb2.SCHEDULE_OUTCOME_SKIPPED,
            decided_at=at(1_789_000_000),
            reason="in_flight",
            run_id="run_9",
        ),
    }
    return schedules_pb2.Schedule(**(given | fields))


def services(*shown: schedules_pb2.Schedule, **answers: Any) -> MemoryServices:
    listed = schedules_pb2.ListSchedulesResponse(items=shown)
    return MemoryServices(
        {"SchedulesService/ListSchedules": listed, **{f"SchedulesService/{rpc}": each for rpc, each in answers.items()}}
    )


def test_everybody_who_sees_the_deployment_sees_schedules_and_operators_change_them() -> None:
    assert roles_of("GET", "/schedules") == ONLOOKERS
    for action in ("pause", "resume", "trigger"):
        assert roles_of("POST", f"/schedules/{{workflow_id}}/{{name}}/{action}") == OPERATORS
    assert "/pause" in html(answered(services(schedule()), "GET", "/schedules"))
    assert "/pause" not in html(answered(services(schedule()), "GET", "/schedules", user=VIEWER), VIEWER)
    assert APPROVER.role not in roles_of("GET", "/schedules")


def test_a_schedule_shows_its_next_five_times_and_its_last_outcome_with_the_run() -> None:
    page = html(answered(services(schedule()), "GET", "/schedules"))
    assert page.count('<time datetime="2026-09-2') == 5
    assert "Month &lt;end&gt;" in page
    assert "A run of it was in flight." in page
    assert 'href="/runs/run_9"' in page


def test_a_planned_start_is_shown_with_who_planned_it_and_can_be_cancelled() -> None:
    planned = schedule(name="", cron="", timezone="", next_times=[at(1_790_000_000)], planned_by="user:ada", last=None)
    page = html(answered(services(planned), "GET", "/schedules"))
    assert "Planned start" in page
    assert "user:ada" in page
    assert 'action="/schedules/sch_1/cancel"' in page
    assert "/pause" not in page


def test_the_page_shows_one_page_of_the_list_and_leads_to_the_next() -> None:
    listed = schedules_pb2.ListSchedulesResponse(items=[schedule()], next_page_token="a+b")
    backend = MemoryServices({"SchedulesService/ListSchedules": listed})
    assert 'href="/schedules?cursor=a%2Bb"' in html(answered(backend, "GET", "/schedules"))
    answered(backend, "GET", "/schedules", query={"cursor": "a+b"})
    requests = backend.asked("SchedulesService/ListSchedules")
    assert [(each.page_token, each.page_size) for each in requests] == [("", 100), ("a+b", 100)]
    behind_the_last = html(answered(services(), "GET", "/schedules", query={"cursor": "a+b"}))
    assert "runs start --at" not in behind_the_last
    assert "Back to the first" in behind_the_last


def test_without_a_schedule_the_page_says_how_to_make_one() -> None:
    assert "runs start --at" in html(answered(services(), "GET", "/schedules"))


def test_buttons_pause_resume_and_cancel() -> None:
    backend = services(
        PauseSchedule=schedule(paused=True),
        ResumeSchedule=schedule(),
        CancelPlannedStart=schedules_pb2.CancelPlannedStartResponse(),
    )
    of_workflow = {"from": "/workflows/wf_1"}
    one = "/schedules/{workflow_id}/{name}"
    paused = answered(backend, "POST", f"{one}/pause", NAMES, form=of_workflow)
    assert paused == Redirect("/workflows/wf_1", "The schedule nightly is paused.")
    elsewhere = answered(backend, "POST", f"{one}/resume", NAMES, form={"from": "https://example.org"})
    assert elsewhere == Redirect("/schedules", "The schedule nightly starts runs again.")
    answered(backend, "POST", "/schedules/{schedule_id}/cancel", {"schedule_id": "sch_1"})
    assert backend.asked("SchedulesService/CancelPlannedStart") == [
        schedules_pb2.CancelPlannedStartRequest(schedule_id="sch_1")
    ]


def test_a_form_that_starts_a_run_leads_to_it_with_its_key() -> None:
    started = StartRunResponse(run=Run(summary=RunSummary(run_id="run_2")))
    backend = services(TriggerSchedule=started)
    path = "/schedules/{workflow_id}/{name}/trigger"
    answer = answered(backend, "POST", path, NAMES, form={"once": "console-1"})
    assert answer == Redirect("/runs/run_2", "The schedule nightly was started by you.")
    assert backend.asked("SchedulesService/TriggerSchedule") == [
        schedules_pb2.TriggerScheduleRequest(workflow="wf_1", name="nightly", idempotency_key="console-1")
    ]
