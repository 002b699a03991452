"""What waits for a person's decision, and the decision."""

from typing import Final
from urllib.parse import quote

from contract.fields import rules_of
from edge.console.visit import ANYBODY, Answered, Page, Redirect, View, Visit
from edge.errors import Refusal
from workflow_api.v1.runs_pb2 import DecideApprovalRequest, ListPendingApprovalsRequest, PendingApproval

LONGEST_COMMENT: Final = rules_of(DecideApprovalRequest.DESCRIPTOR.fields_by_name["comment"]).max_length

_DECISIONS: Final = {"approve": True, "reject": False}
_LIST: Final = "/approvals"


async def pending_approvals(visit: Visit) -> list[PendingApproval]:
    """Return what waits for a person, oldest first."""
    answer = await visit.services.call("RunsService/ListPendingApprovals", ListPendingApprovalsRequest())
    return list(answer.items)


async def show_list(visit: Visit) -> Answered:
    """Show what waits."""
    return View("approvals/list.html", {"approvals": await pending_approvals(visit)})


async def show_one(visit: Visit) -> Answered:
    """Show one approval with its form; one that no longer waits is told, whatever became of it."""
    return await _one(visit)


async def decide(visit: Visit) -> Answered:
    """Keep a decision; what is wrong with it is told beside the form, and nothing is decided."""
    approval_id = visit.path["approval_id"]
    decision = visit.sent("decision")
    comment = visit.sent("comment")
    if decision not in _DECISIONS:
        return await _one(visit, comment=comment, problem="Choose one: approve or reject.")
    if len(comment) > LONGEST_COMMENT:
        problem = f"The comment has {len(comment):,} characters; at most {LONGEST_COMMENT:,} are allowed."
        return await _one(visit, comment=comment, problem=problem)
    request = DecideApprovalRequest(approval_id=approval_id, approve=_DECISIONS[decision], comment=comment or None)
    try:
        decided = await visit.services.call("RunsService/DecideApproval", request)
    except Refusal as refusal:
        # The only rule of an approval that a form cannot break by itself: somebody else was faster.
        late = refusal.code == "invalid_request" and _is_about(refusal, "approval_id")
        if refusal.code != "not_found" and not late:
            raise
        return Redirect(_back(visit), "Nothing was changed: this approval does not wait for a decision any more.")
    done = "Approved: the run goes on." if request.approve else "Rejected: the run fails."
    return Redirect(f"/runs/{quote(decided.run_id, safe='')}", done)


async def _one(visit: Visit, *, comment: str = "", problem: str = "") -> View:
    approval_id = visit.path["approval_id"]
    found = [each for each in await pending_approvals(visit) if each.approval.approval_id == approval_id]
    if not found:
        return View("approvals/gone.html", status=404)
    shown = {"pending": found[0], "comment": comment, "problem": problem, "longest": LONGEST_COMMENT}
    return View("approvals/one.html", shown, status=400 if problem else 200)


def _is_about(refusal: Refusal, name: str) -> bool:
    problems = refusal.details
    return isinstance(problems, list) and [problem["name"] for problem in problems] == [name]


def _back(visit: Visit) -> str:
    """Where a decision that came too late was made: the page of a run says so, for it shows more than the list."""
    run_id = visit.sent("run_id")
    return f"/runs/{quote(run_id, safe='')}" if run_id else _LIST


PAGES: Final[tuple[Page, ...]] = (
    Page("GET", _LIST, ANYBODY, show_list),
    Page("GET", "/approvals/{approval_id}", ANYBODY, show_one),
    Page("POST", "/approvals/{approval_id}", ANYBODY, decide),
)
