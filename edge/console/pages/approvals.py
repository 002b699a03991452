"""Pages of one approval: what it is about, and its decision."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from contract.fields import rules_of
from contract.times import milliseconds_of
from edge.console.addresses import APPROVALS, approval_address, inbox_address, run_address
from edge.console.approvals.decisions import DECISIONS
from edge.console.approvals.decisions import decide as record
from edge.console.paging import all_items
from edge.console.rendering import formatting
from edge.console.visit import DECIDERS, Answered, EventStream, Page, Redirect, View, Visit
from edge.errors import Refusal
from workflow_api.v1.reviews_pb2 import (
    APPROVAL_STATE_PENDING,
    GetReviewRequest,
    Review,
    ReviewMaterial,
    ReviewStep,
)
from workflow_api.v1.runs_pb2 import DecideApprovalRequest, ListPendingApprovalsRequest, PendingApproval

MAX_COMMENT_CHARS: Final = rules_of(DecideApprovalRequest.DESCRIPTOR.fields_by_name["comment"]).max_length

_EMPTY: Final = frozenset({"", "{}"})
_PAGE: Final = 100
_POLL_SECONDS: Final = 1.0


async def pending_approvals(visit: Visit, run_id: str) -> list[PendingApproval]:
    """Returns the pending approvals of a run, oldest first; none to a person who decides nothing."""
    if not visit.may("RunsService/DecideApproval"):
        return []
    request = ListPendingApprovalsRequest(page_size=_PAGE, run_id=run_id)
    return await all_items(visit.services, "RunsService/ListPendingApprovals", request)


async def show_one(visit: Visit) -> Answered:
    """Shows one approval with what it is about and its form; of one that is decided, who decided it."""
    return await _one(visit)


async def decide(visit: Visit) -> Answered:
    """Records a decision; an invalid one shows the form with the problem, and decides nothing."""
    approval_id = visit.path["approval_id"]
    decision = visit.sent("decision")
    comment = visit.sent("comment")
    if decision not in DECISIONS:
        return await _one(visit, comment=comment, problem="Choose one: approve or reject.")
    if len(comment) > MAX_COMMENT_CHARS:
        problem = f"The comment has {len(comment):,} characters; at most {MAX_COMMENT_CHARS:,} are allowed."
        return await _one(visit, comment=comment, problem=problem)
    decided = await record(visit.services, approval_id, decision, comment)
    if decided is None:
        # The inbox says who decided it.
        return Redirect(_back(visit, approval_id), "Nothing was changed: this approval is no longer pending.")
    done = "Approved: the run continues." if DECISIONS[decision] else "Rejected: the run fails."
    if visit.sent("inbox"):
        return Redirect(_back(visit), done)
    return Redirect(run_address(decided.run_id), done)


async def stream(visit: Visit) -> Answered:
    """Streams an update once what the approval is about has been prepared."""
    return EventStream(_until_prepared(visit))


async def _until_prepared(visit: Visit) -> AsyncIterator[tuple[str, str]]:
    while True:
        if not (await _review(visit)).preparing:
            yield "refresh", "prepared"
            return
        await asyncio.sleep(_POLL_SECONDS)


async def _review(visit: Visit) -> Review:
    request = GetReviewRequest(approval_id=visit.path["approval_id"])
    answer: Review = await visit.services.call("ReviewsService/GetReview", request)
    return answer


async def _one(visit: Visit, *, comment: str = "", problem: str = "") -> View:
    approval_id = visit.path["approval_id"]
    try:
        review = await _review(visit)
    except Refusal as refusal:
        if refusal.code not in {"not_found", "invalid_request"}:
            raise
        return View("approvals/gone.html", status=404)
    pending = review.pending
    context = {
        "review": review,
        "pending": pending,
        "waiting": waiting_text(pending),
        "started_by": formatting.trigger(pending.triggered_by),
        "labels": sorted(pending.labels.items()),
        "open": review.state == APPROVAL_STATE_PENDING,
        "state": formatting.approval_badge(review.state),
        "inputs": inputs_view(review.material),
        "steps": [step_view(step) for step in review.material.steps],
        "stream": f"{approval_address(approval_id)}/stream" if review.preparing else "",
        "comment": comment,
        "problem": problem,
        "longest": MAX_COMMENT_CHARS,
    }
    return View("approvals/one.html", context, status=400 if problem else 200)


def waiting_text(pending: PendingApproval) -> str:
    """Returns how long an approval has waited, in words."""
    return formatting.duration(milliseconds_of(pending.waiting))


def inputs_view(material: ReviewMaterial) -> list[tuple[str, str, bool]]:
    """Returns the inputs of the run as heading, text, and whether the rest is cut."""
    found = []
    if material.HasField("input_text"):
        found.append(("Text", material.input_text.text, material.input_text.cut))
    if material.parameters.text not in _EMPTY:
        found.append(("Parameters", formatting.json_lines(material.parameters.text), material.parameters.cut))
    if material.HasField("inputs_manifest"):
        given = material.inputs_manifest
        found.append(("Copied inputs", formatting.json_lines(given.text), given.cut))
    return found


def step_view(step: ReviewStep) -> Mapping[str, Any]:
    """Returns a step that an approval needs, with its value in lines and the sizes of its files."""
    value = formatting.json_lines(step.value.text) if step.HasField("value") else ""
    return {
        "step": step,
        "value": "" if value == "null" else value,
        "files": [(file, formatting.size(file.size_bytes)) for file in step.files],
        "left_out": step.files_total - len(step.files),
    }


def _back(visit: Visit, at: str = "") -> str:
    """Returns where a decision was made: in the inbox, with approval `at` opened if given, else on the run's page."""
    if visit.sent("inbox"):
        return inbox_address(visit.sent("gate"), at)
    run_id = visit.sent("run_id")
    return run_address(run_id) if run_id else APPROVALS


PAGES: Final[tuple[Page, ...]] = (
    Page("GET", "/approvals/{approval_id}", DECIDERS, show_one),
    Page("GET", "/approvals/{approval_id}/stream", DECIDERS, stream),
    Page("POST", "/approvals/{approval_id}", DECIDERS, decide),
)
