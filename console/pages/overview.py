"""Overview page: failures, approvals of this person, running runs, two weeks in charts, health and next starts."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

from console.approvals import deadline_of
from console.pages.approvals import waiting_text
from console.pages.first_steps import first_steps
from console.rendering.day_charts import DURATIONS, OUTCOMES, durations_chart, outcomes_chart, succeeded_share
from console.rendering.text import short
from console.run.sentences import failure_text
from console.visit import PageEvents, PageResult, View, Visit
from workflow_api.v1.deployment_health_pb2 import DeploymentHealth, GetDeploymentHealthRequest, HealthFinding
from workflow_api.v1.deployment_pb2 import Deployment, GetDeploymentRequest
from workflow_api.v1.run_lists_pb2 import (
    FailedRun,
    GetNewestFailuresRequest,
    GetRunDaysRequest,
    GetRunDaysResponse,
    ListFoundRunsRequest,
    ListFoundRunsResponse,
    NewestFailures,
    RunDay,
)
from workflow_api.v1.runs_pb2 import (
    RUN_STATUS_RUNNING,
    ListPendingApprovalsRequest,
    ListPendingApprovalsResponse,
    PendingApproval,
)
from workflow_api.v1.schedules_pb2 import ListSchedulesRequest, ListSchedulesResponse, Schedule

REFRESH_SECONDS: Final = 10.0
"""Seconds between two refreshes of the page."""

_DAYS: Final = 14
_SHOWN: Final = 5
_FAILURES: Final = 8
_LOOKED_THROUGH: Final = 100
_MOST_ERROR_CHARS: Final = 160


async def show(visit: Visit) -> PageResult:
    """Shows how things are, as far as the person's role allows."""
    (failures, running, days), (waiting, more_waiting), (stops, findings, starts) = await asyncio.gather(
        asyncio.gather(_failures(visit), _running(visit), _days(visit)),
        _own_approvals(visit),
        asyncio.gather(_stops(visit), _findings(visit), _next_starts(visit)),
    )
    context = {
        "steps": await first_steps(visit, days),
        "failures": [_failure(each) for each in failures.items],
        "failed": _number(len(failures.items), more=failures.more),
        "since": failures.since,
        "decides": visit.may("RunsService/DecideApproval"),
        "waiting": [(each, waiting_text(each), deadline_of(each)) for each in waiting[:_SHOWN]],
        "waits": _number(len(waiting), more=more_waiting),
        "running": [found.run for found in running.items[:_SHOWN]],
        "runs": _number(len(running.items), more=running.HasField("next_page_token")),
        "stops": stops,
        "findings": findings,
        "sees_health": visit.may(_HEALTH),
        "sees_schedules": visit.may(_SCHEDULES),
        "starts": starts,
        **_charts(days),
    }
    return View("overview/overview.html", context)


async def stream(_: Visit) -> PageResult:
    """Streams a refresh every few seconds."""
    return PageEvents(_refreshes())


async def _refreshes() -> AsyncIterator[tuple[str, str]]:
    while True:
        await asyncio.sleep(REFRESH_SECONDS)
        yield "refresh", ""


def _charts(days: Sequence[RunDay]) -> Mapping[str, Any]:
    """Returns the charts of days; without ended runs there is none."""
    if not any(day.ended for day in days):
        return {"days": ()}
    return {
        "days": days,
        "outcomes": outcomes_chart(days),
        "outcome_kinds": OUTCOMES,
        "durations": durations_chart(days),
        "duration_kinds": DURATIONS,
        "succeeded": succeeded_share(days),
    }


def _number(found: int, *, more: bool) -> str:
    return f"{found:,} or more" if more else f"{found:,}"


def _failure(run: FailedRun) -> tuple[FailedRun, str]:
    return run, short(" ".join(failure_text(run.error.code, run.error.message).split()), _MOST_ERROR_CHARS)


async def _failures(visit: Visit) -> NewestFailures:
    answer: NewestFailures = await visit.services.call(
        "RunListsService/GetNewestFailures", GetNewestFailuresRequest(limit=_FAILURES)
    )
    return answer


async def _running(visit: Visit) -> ListFoundRunsResponse:
    request = ListFoundRunsRequest(status=[RUN_STATUS_RUNNING], page_size=_LOOKED_THROUGH)
    answer: ListFoundRunsResponse = await visit.services.call("RunListsService/ListFoundRuns", request)
    return answer


async def _days(visit: Visit) -> Sequence[RunDay]:
    """Returns the last two weeks, today last; none for people who see chosen workflows alone."""
    rpc = "RunListsService/GetRunDays"
    if not visit.may(rpc):
        return ()
    answer: GetRunDaysResponse = await visit.services.call(rpc, GetRunDaysRequest())
    return answer.days[-_DAYS:]


async def _own_approvals(visit: Visit) -> tuple[Sequence[PendingApproval], bool]:
    """Returns pending approvals that the person may decide, the nearest deadline first, and whether more may follow."""
    if not visit.may("RunsService/DecideApproval"):
        return (), False
    request = ListPendingApprovalsRequest(page_size=_LOOKED_THROUGH, by_deadline=True)
    answer: ListPendingApprovalsResponse = await visit.services.call("RunsService/ListPendingApprovals", request)
    return [each for each in answer.items if not each.excluded], answer.HasField("next_page_token")


_HEALTH: Final = "DeploymentHealthService/GetDeploymentHealth"
_SCHEDULES: Final = "SchedulesService/ListSchedules"


async def _stops(visit: Visit) -> Sequence[str]:
    """Returns what of the deployment's record stops the API or its runs; nothing for people who may not see it."""
    rpc = "DeploymentService/GetDeployment"
    if not visit.may(rpc):
        return ()
    deployment: Deployment = await visit.services.call(rpc, GetDeploymentRequest())
    stops = (
        ("No key is served: the deployment is not governed.", not deployment.governed),
        ("No key is served: the API is switched off.", not deployment.api_enabled),
        (f"No run is started: the licence is on hold. {deployment.licence.reason}", deployment.licence.state == "hold"),
    )
    return [text for text, applies in stops if applies]


async def _findings(visit: Visit) -> Sequence[HealthFinding]:
    """Returns findings about health, critical ones first; none for people who may not see the health."""
    if not visit.may(_HEALTH):
        return ()
    health: DeploymentHealth = await visit.services.call(_HEALTH, GetDeploymentHealthRequest())
    findings: Sequence[HealthFinding] = health.findings
    return findings


async def _next_starts(visit: Visit) -> Sequence[Schedule]:
    """Returns the schedules that are due next; none for people who may not see schedules."""
    if not visit.may(_SCHEDULES):
        return ()
    answer: ListSchedulesResponse = await visit.services.call(
        _SCHEDULES, ListSchedulesRequest(page_size=_SHOWN, by_next_time=True)
    )
    items: Sequence[Schedule] = answer.items
    return items
