"""Page of schedules and planned starts, with their actions, and the schedules on a workflow's page."""

from typing import Final, NamedTuple
from urllib.parse import quote, urlencode
from uuid import uuid4

from console.addresses import run_address
from console.paging import all_items
from console.rendering.formatting import Badge
from console.visit import PageResult, Redirect, View, Visit
from contract.refusals import Refusal
from workflow_api.v1 import schedules_pb2
from workflow_api.v1.runs_pb2 import StartRunResponse
from workflow_api.v1.schedules_pb2 import (
    CancelPlannedStartRequest,
    ListSchedulesRequest,
    PauseScheduleRequest,
    ResumeScheduleRequest,
    Schedule,
    TriggerScheduleRequest,
)

_HERE: Final = "/schedules"
_LIST: Final = "SchedulesService/ListSchedules"
_PAGE: Final = 100
_MOST_AT_ONCE: Final = 200
_OUTCOMES: Final = {
    schedules_pb2.SCHEDULE_OUTCOME_STARTED: Badge("started", "good"),
    schedules_pb2.SCHEDULE_OUTCOME_SKIPPED: Badge("skipped", "warn"),
    schedules_pb2.SCHEDULE_OUTCOME_QUEUED: Badge("waits", "busy"),
    schedules_pb2.SCHEDULE_OUTCOME_FAILED: Badge("failed", "bad"),
}
_UNKNOWN: Final = Badge("unknown")
_REASONS: Final = {
    "missed": "Nothing ran at that time.",
    "in_flight": "A run of it was in flight.",
    "queue_full": "Another due time was waiting already.",
    "paused": "It was paused while the due time waited.",
}


class ScheduleView(NamedTuple):
    """A schedule with its last outcome in words."""

    schedule: Schedule
    outcome: Badge
    started: bool
    reason: str


async def schedules_of(visit: Visit, workflow_id: str) -> list[ScheduleView]:
    """Returns the schedules of a workflow; none for people who may not see schedules, or for a deleted workflow."""
    if not visit.may(_LIST):
        return []
    request = ListSchedulesRequest(workflow=workflow_id, page_size=_MOST_AT_ONCE)
    try:
        items = await all_items(visit.services, _LIST, request)
    except Refusal as refusal:
        if refusal.code != "not_found":
            raise
        return []
    return [_view(item) for item in items]


async def show_list(visit: Visit) -> PageResult:
    """Lists schedules and planned starts of all workflows, a page at a time."""
    cursor = visit.query.get("cursor", "")
    answer = await visit.services.call(_LIST, ListSchedulesRequest(page_size=_PAGE, page_token=cursor))
    token = answer.next_page_token if answer.HasField("next_page_token") else ""
    context = {
        "rows": [_view(item) for item in answer.items],
        "next": f"{_HERE}?" + urlencode({"cursor": token}) if token else "",
        "first": _HERE if cursor else "",
        "can_change": visit.may("SchedulesService/TriggerSchedule"),
        "once": new_idempotency_key(),
    }
    return View("schedules/list.html", context)


async def pause(visit: Visit) -> PageResult:
    """Pauses a schedule, which then starts no runs."""
    request = PauseScheduleRequest(workflow=visit.path["workflow_id"], name=visit.path["name"])
    await visit.services.call("SchedulesService/PauseSchedule", request)
    return _back(visit, f"The schedule {request.name} is paused.")


async def resume(visit: Visit) -> PageResult:
    """Resumes a paused schedule."""
    request = ResumeScheduleRequest(workflow=visit.path["workflow_id"], name=visit.path["name"])
    await visit.services.call("SchedulesService/ResumeSchedule", request)
    return _back(visit, f"The schedule {request.name} starts runs again.")


async def trigger(visit: Visit) -> PageResult:
    """Starts a run of a schedule now; a form that is sent twice starts one."""
    request = TriggerScheduleRequest(
        workflow=visit.path["workflow_id"],
        name=visit.path["name"],
        idempotency_key=visit.sent("once") or new_idempotency_key(),
    )
    answer: StartRunResponse = await visit.services.call("SchedulesService/TriggerSchedule", request)
    return Redirect(run_address(answer.run.summary.run_id), f"The schedule {request.name} was started by you.")


async def cancel(visit: Visit) -> PageResult:
    """Cancels a planned start."""
    request = CancelPlannedStartRequest(schedule_id=visit.path["schedule_id"])
    await visit.services.call("SchedulesService/CancelPlannedStart", request)
    return Redirect(_HERE, "The planned start is cancelled.")


def new_idempotency_key() -> str:
    """Returns a new idempotency key for a form, by which a form that is sent twice starts one run."""
    return f"console-{uuid4().hex}"


def _back(visit: Visit, notice: str) -> Redirect:
    of_workflow = f"/workflows/{quote(visit.path['workflow_id'], safe='')}"
    return Redirect(of_workflow if visit.sent("from") == of_workflow else _HERE, notice)


def _view(schedule: Schedule) -> ScheduleView:
    last = schedule.last
    started = last.outcome == schedules_pb2.SCHEDULE_OUTCOME_STARTED
    return ScheduleView(
        schedule, _OUTCOMES.get(last.outcome, _UNKNOWN), started, _REASONS.get(last.reason, last.reason)
    )
