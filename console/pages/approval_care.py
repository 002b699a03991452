"""Forms by which a person takes care of an approval without deciding it: assign it to themselves, or snooze it."""

from typing import Final

from console.addresses import approval_address, inbox_address
from console.rendering import times
from console.visit import PageResult, Redirect, Visit
from contract.refusals import Refusal
from contract.times import milliseconds_of, to_timestamp
from workflow_api.v1.reviews_pb2 import AssignApprovalRequest, SnoozeApprovalRequest
from workflow_api.v1.runs_pb2 import PendingApproval

_NOT_PENDING: Final = "Nothing was changed: this approval is no longer pending."


def snooze_choices(visit: Visit, pending: PendingApproval) -> list[tuple[str, str]]:
    """Returns until when an approval can be snoozed, before its deadline, each as value and label."""
    now = times.now_ms()
    choices = (("tomorrow", "until tomorrow"), ("week", "until next week"))
    if not pending.HasField("deadline_at"):
        return list(choices)
    deadline = milliseconds_of(pending.deadline_at)
    return [(value, label) for value, label in choices if _end(visit, value, now) < deadline]


async def assign(visit: Visit) -> PageResult:
    """Assigns an approval to the person, or to nobody."""
    approval_id, unassign = visit.path["approval_id"], bool(visit.sent("unassign"))
    request = AssignApprovalRequest(approval_id=approval_id, unassign=unassign)
    done = "It is assigned to nobody." if unassign else "It is assigned to you."
    return await _sent(visit, "ReviewsService/AssignApproval", request, done)


async def snooze(visit: Visit) -> PageResult:
    """Snoozes an approval for the person, or wakes it."""
    approval_id, asked = visit.path["approval_id"], visit.sent("until")
    request = SnoozeApprovalRequest(approval_id=approval_id)
    done = "It is back among all."
    if asked:
        end = _end(visit, asked, times.now_ms())
        request.until.CopyFrom(to_timestamp(end))
        done = f"It is snoozed for you until {times.text_in(visit.zone, end)}."
    return await _sent(visit, "ReviewsService/SnoozeApproval", request, done)


def _end(visit: Visit, asked: str, now: int) -> int:
    days = times.days_to_monday(visit.zone, now) if asked == "week" else 1
    return times.morning(visit.zone, now, days)


async def _sent(
    visit: Visit, rpc: str, request: AssignApprovalRequest | SnoozeApprovalRequest, done: str
) -> PageResult:
    gate, show = visit.sent("gate"), visit.sent("show")
    stays = isinstance(request, AssignApprovalRequest)
    inbox = inbox_address(gate, request.approval_id if stays else "", show=show, opened=stays)
    to = inbox if visit.sent("inbox") else approval_address(request.approval_id)
    try:
        await visit.services.call(rpc, request)
    except Refusal as refusal:
        if refusal.code not in {"not_found", "invalid_request"}:
            raise
        problems = refusal.details if isinstance(refusal.details, list) else []
        late = any(problem["name"] == "until" for problem in problems)
        return Redirect(to, "Nothing was changed: it would end after its deadline." if late else _NOT_PENDING)
    return Redirect(to, done)
