"""The overview: how things are, by role."""

import re
from typing import Any

import pytest

from contract.times import milliseconds_of, to_duration, to_timestamp
from tests.unit.console.run_answers import EVIL, summary
from tests.unit.console.seen import ADMINISTRATOR, APPROVER, MemoryServices, answered, html
from workflow_api.v1.deployment_health_pb2 import DeploymentHealth, HealthFinding
from workflow_api.v1.deployment_pb2 import Deployment, Licence
from workflow_api.v1.run_lists_pb2 import (
    FailedRun,
    FoundRun,
    GetRunDaysResponse,
    ListFoundRunsResponse,
    NewestFailures,
    RunDay,
)
from workflow_api.v1.runs_pb2 import (
    RUN_STATUS_RUNNING,
    Approval,
    ListPendingApprovalsResponse,
    PendingApproval,
    RunError,
)
from workflow_api.v1.schedules_pb2 import ListSchedulesResponse, Schedule
from workflow_api.v1.users_pb2 import ROLE_APPROVER, ROLE_OPERATOR, ROLE_VIEWER, ChosenWorkflows, User

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
TODAY = 20_700 * DAY_MS
FAILURES, RUNNING, DAYS = (f"RunListsService/{rpc}" for rpc in ("GetNewestFailures", "ListFoundRuns", "GetRunDays"))
PENDING = "RunsService/ListPendingApprovals"
HEALTH = "DeploymentHealthService/GetDeploymentHealth"
SCHEDULES = "SchedulesService/ListSchedules"
RECORD = "DeploymentService/GetDeployment"


def in_use(ended: int = 20) -> GetRunDaysResponse:
    """Thirty days, on the last of which runs ended."""
    days = [RunDay(day=to_timestamp(TODAY - back * DAY_MS)) for back in range(29, 0, -1)]
    last = RunDay(day=to_timestamp(TODAY), ended=ended, failed=2, median=to_duration(2_000), p95=to_duration(9_000))
    return GetRunDaysResponse(days=[*days, last])


def services(**answers: Any) -> MemoryServices:
    known = {
        FAILURES: NewestFailures(since=to_timestamp(TODAY - DAY_MS)),
        RUNNING: ListFoundRunsResponse(),
        DAYS: in_use(),
        PENDING: ListPendingApprovalsResponse(),
        HEALTH: DeploymentHealth(),
        SCHEDULES: ListSchedulesResponse(),
        RECORD: Deployment(governed=True, api_enabled=True, licence=Licence(state="active")),
    }
    return MemoryServices({**known, **{globals()[name]: answer for name, answer in answers.items()}})


def overview(backend: MemoryServices, user: User = ADMINISTRATOR) -> str:
    return html(answered(backend, "GET", "/", user=user), user)


def pending(number: int, **fields: Any) -> PendingApproval:
    return PendingApproval(
        approval=Approval(approval_id=f"ap_{number}", title=f"Question {number}"), workflow_name="Digest", **fields
    )


def test_a_failure_has_its_workflow_and_its_error_in_one_line() -> None:
    failed = [
        FailedRun(
            run_id="run_1", workflow_name=EVIL, error=RunError(code="node_failed", message="no\nmore  paper " * 40)
        ),
        FailedRun(run_id="run_2", workflow_name="Old", error=RunError(code="node_failed")),
    ]
    answer = NewestFailures(items=failed, more=True, since=to_timestamp(TODAY - DAY_MS))
    page = overview(services(FAILURES=answer))
    assert 'href="/runs/run_1"' in page
    assert "no more paper no more" in page
    assert "…</span>" in page
    assert "Node failed." in page
    assert "2 or more" in page
    assert "<script>alert" not in page
    assert 'href="/runs?status=failed&amp;from=2026-09-03"' in page


def test_only_approvals_that_the_person_may_decide_wait_for_them() -> None:
    waiting = [pending(number, excluded=number % 2 == 0, waiting=to_duration(61_000)) for number in range(1, 14)]
    backend = services(PENDING=ListPendingApprovalsResponse(items=waiting))
    page = overview(backend, APPROVER)
    assert 'href="/approvals/ap_1"' in page
    assert "ap_2" not in page
    assert '<p class="figure">7</p>' in page
    assert "Digest, for 1 min 1 s" in page
    assert page.count("Question ") == 5
    assert [asked.by_deadline for asked in backend.asked(PENDING)] == [True]


def test_approvals_that_are_due_soon_or_were_reminded_of_are_marked() -> None:
    asked = to_timestamp(TODAY)
    waiting = [
        pending(number, deadline_at=to_timestamp(TODAY + hours * HOUR_MS)) for number, hours in ((1, 3), (2, 90))
    ]
    waiting.append(pending(3, reminded_at=asked))
    for each in waiting:
        each.approval.requested_at.CopyFrom(asked)
        each.waiting.CopyFrom(to_duration(HOUR_MS))
    page = overview(services(PENDING=ListPendingApprovalsResponse(items=waiting)), APPROVER)
    assert re.findall('<span class="badge warn">([^<]*)</span>', page) == ["due in 2 h 0 min", "reminded"]
    assert "due in 3 d" not in page


def test_running_runs_are_the_newest_with_their_number() -> None:
    found = [FoundRun(run=summary(run_id=f"run_{number}")) for number in range(7)]
    backend = services(RUNNING=ListFoundRunsResponse(items=found, next_page_token="more"))
    page = overview(backend)
    assert page.count("1 of 2 steps") == 5
    assert "7 or more" in page
    assert [list(asked.status) for asked in backend.asked(RUNNING)] == [[RUN_STATUS_RUNNING]]


def test_two_weeks_are_two_charts_and_a_table() -> None:
    page = overview(services())
    assert page.count('<svg class="bars"') == 2
    assert "18 completed, 2 failed, 0 cancelled; the table has the numbers" in page
    assert "90 % of the runs" in page
    assert page.count('<a href="/runs?from=') == 14


def test_what_stops_the_deployment_is_said_and_what_health_found() -> None:
    record = Deployment(licence=Licence(state="hold", reason="unpaid"))
    health = DeploymentHealth(findings=[HealthFinding(message="The disk is full.", remedy="Make room.", critical=True)])
    page = overview(services(RECORD=record, HEALTH=health))
    assert "the licence is on hold. unpaid" in page
    assert "the API is switched off" in page
    assert "The disk is full. Make room." in page
    assert "all is well" not in page
    assert "all is well" in overview(services())


def test_the_next_starts_are_asked_for_by_their_time() -> None:
    due = Schedule(workflow_id="wf_1", workflow_name="Digest", name="nightly", next_times=[to_timestamp(TODAY)] * 2)
    backend = services(SCHEDULES=ListSchedulesResponse(items=[due]))
    page = overview(backend)
    assert 'href="/workflows/wf_1"' in page
    assert page.count("<time") == 1
    (asked,) = backend.asked(SCHEDULES)
    assert (asked.by_next_time, asked.page_size) == (True, 5)


@pytest.mark.parametrize(
    ("user", "hidden"),
    [
        (User(name="o", role=ROLE_OPERATOR), {PENDING}),
        (User(name="v", role=ROLE_VIEWER), {PENDING}),
        (APPROVER, {HEALTH, SCHEDULES, RECORD}),
        (
            User(name="c", role=ROLE_APPROVER, decides_for=ChosenWorkflows(workflow_ids=["wf_1"])),
            {HEALTH, SCHEDULES, RECORD, DAYS},
        ),
    ],
)
def test_each_role_asks_only_for_what_it_may_see(user: User, hidden: set[str]) -> None:
    backend = services()
    overview(backend, user)
    assert {rpc for rpc, _ in backend.calls} == {FAILURES, RUNNING, DAYS, PENDING, HEALTH, SCHEDULES, RECORD} - hidden


def test_the_page_is_refreshed_while_it_is_open() -> None:
    assert 'data-stream="/overview/stream"' in overview(services())
    assert milliseconds_of(to_timestamp(TODAY)) == TODAY
