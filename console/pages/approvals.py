"""Pages of approvals: an approval's material, its decision, and the history of decisions by person."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Final
from urllib.parse import urlencode

from console.addresses import approval_address, inbox_address, run_address
from console.approvals import (
    DECISIONS,
    PartLimits,
    call_of,
    deadline_of,
    deciders_text,
    page_of,
    parts_of,
)
from console.approvals import decide as record
from console.forms.decision_form import FormField, form_fields, form_problems, form_values, sent_texts
from console.forms.urlencoded import Problems
from console.pages.workflows import every_workflow
from console.paging import all_items, row_number
from console.rendering import formatting, times
from console.visit import PageEvents, PageResult, Redirect, View, Visit
from contract.fields import rules_of
from contract.refusals import Refusal
from contract.times import milliseconds_of, to_timestamp
from workflow_api.v1.reviews_pb2 import (
    APPROVAL_STATE_APPROVED,
    APPROVAL_STATE_PENDING,
    APPROVAL_STATE_REJECTED,
    GetReviewRequest,
    ListAllDecisionsRequest,
    ListAllDecisionsResponse,
    Review,
)
from workflow_api.v1.runs_pb2 import DecideApprovalRequest, ListPendingApprovalsRequest, PendingApproval

MAX_COMMENT_CHARS: Final = rules_of(DecideApprovalRequest.DESCRIPTOR.fields_by_name["comment"]).max_length

_LIMITS: Final = PartLimits(parts=20, chars=10_000, rows=50, pages=2)
GONE: Final = View("approvals/gone.html", status=404)
"""Page of an approval, or a part of one, that does not wait."""
_PREPARING: Final = "Nothing was decided: what this is about is still being prepared. Decide once it is shown here."
_PAGE: Final = 100
_POLL_SECONDS: Final = 1.0


async def pending_approvals(visit: Visit, run_id: str) -> list[PendingApproval]:
    """Returns the pending approvals of a run, oldest first; none for a person who may not decide."""
    if not visit.may("RunsService/DecideApproval"):
        return []
    request = ListPendingApprovalsRequest(page_size=_PAGE, run_id=run_id)
    return await all_items(visit.services, "RunsService/ListPendingApprovals", request)


async def show_one(visit: Visit) -> PageResult:
    """Shows an approval with its material, and the form to decide it or its decision."""
    return await _approval_page(visit)


async def decide(visit: Visit) -> PageResult:
    """Records a decision; an invalid one shows the form with the problem, and decides nothing."""
    approval_id = visit.path["approval_id"]
    decision = visit.sent("decision")
    comment = visit.sent("comment")
    if decision not in DECISIONS:
        return await _approval_page(visit, comment=comment, problem="Choose one: approve or reject.")
    if len(comment) > MAX_COMMENT_CHARS:
        problem = f"The comment has {len(comment):,} characters; at most {MAX_COMMENT_CHARS:,} are allowed."
        return await _approval_page(visit, comment=comment, problem=problem)
    known = await review_if_any(visit)
    if known is not None and known.preparing:
        # A form may come without the buttons of a page. Where the preparation failed, people may decide.
        return await _approval_page(visit, comment=comment, problem=_PREPARING)
    texts = sent_texts(visit.form) if DECISIONS[decision] else {}
    # A rejection needs no values.
    schema = known.pending.form_schema if known is not None and known.pending.HasField("form_schema") else ""
    values = form_values(schema, texts) if schema and texts else None
    try:
        decided = await record(visit.services, approval_id, decision, comment, values)
    except Refusal as refusal:
        if not (problems := form_problems(refusal)):
            raise
        return await _approval_page(
            visit, comment=comment, problem=problems.get("form", ""), texts=texts, problems=problems
        )
    if decided is None:
        # The page shows who decided meanwhile.
        return Redirect(_back(visit, approval_id), "Nothing was changed: this approval is no longer pending.")
    run, done = run_address(decided.run_id), _done(known, decision)
    if not visit.sent("inbox"):
        return Redirect(run, done)
    to = inbox_address(visit.sent("gate"), visit.sent("next"), show=visit.sent("show"))
    return Redirect(to, done, link=("Open the run", run))


def _done(review: Review | None, decision: str) -> str:
    """Returns what a decision has done, with the values of the approval that tell it from others."""
    pending = review.pending if review is not None else PendingApproval()
    reference = f" ({pending.client_reference})" if pending.HasField("client_reference") else ""
    about = f" “{pending.approval.title}” of {pending.workflow_name}{reference}" if pending.workflow_name else ""
    if DECISIONS[decision]:
        return f"Approved{about}: the run continues."
    return f"Rejected{about}: {'the model is told' if pending.HasField('tool_call') else 'the run fails'}."


async def stream(visit: Visit) -> PageResult:
    """Streams updates of an open approval: once its material has been prepared, and once it does not wait any more."""
    return PageEvents(_until_settled(visit))


async def _until_settled(visit: Visit) -> AsyncIterator[tuple[str, str]]:
    preparing = bool(visit.query.get("preparing"))
    review = await review_if_any(visit)
    while review is not None and review.state == APPROVAL_STATE_PENDING and review.preparing:
        await asyncio.sleep(_POLL_SECONDS)
        review = await review_if_any(visit)
    approval_id = visit.path["approval_id"]
    waits = review is not None and review.state == APPROVAL_STATE_PENDING
    if preparing and waits:
        yield "refresh", "prepared"
    # Once it is prepared, the run's list answers for less than the material does.
    while review is not None and waits:
        await asyncio.sleep(_POLL_SECONDS)
        listed = await pending_approvals(visit, review.pending.run_id)
        waits = any(each.approval.approval_id == approval_id for each in listed)
    yield "refresh", "settled"


async def _review(visit: Visit) -> Review:
    request = GetReviewRequest(approval_id=visit.path["approval_id"])
    answer: Review = await visit.services.call("ReviewsService/GetReview", request)
    return answer


async def review_if_any(visit: Visit) -> Review | None:
    """Returns the approval of the address with its material; None where there is none."""
    try:
        return await _review(visit)
    except Refusal as refusal:
        if refusal.code not in {"not_found", "invalid_request"}:
            raise
        return None


async def _approval_page(
    visit: Visit,
    *,
    comment: str = "",
    problem: str = "",
    texts: Mapping[str, str] | None = None,
    problems: Problems | None = None,
) -> View:
    approval_id = visit.path["approval_id"]
    review = await review_if_any(visit)
    if review is None:
        return GONE
    pending = review.pending
    parts = parts_of(review.material)
    first = row_number(visit.query.get("first", ""))
    shown, following = page_of(parts, first, _LIMITS)
    context = {
        "review": review,
        "pending": pending,
        "waiting": waiting_text(pending),
        "deadline": deadline_of(pending),
        "deciders": deciders_text(pending),
        "call": call_of(pending),
        "fields": fields_of(pending, sent_texts(visit.form) if texts is None else texts, problems or {}),
        "started_by": formatting.trigger(pending.triggered_by),
        "labels": sorted(pending.labels.items()),
        "open": review.state == APPROVAL_STATE_PENDING,
        "state": formatting.approval_badge(review.state),
        "address": approval_address(approval_id),
        "shown": shown,
        "first": first,
        "next": following,
        "count": len(parts),
        "stream": _stream_address(review),
        "comment": comment,
        "problem": problem,
        "longest": MAX_COMMENT_CHARS,
    }
    return View("approvals/one.html", context, status=400 if problem or problems else 200)


def fields_of(
    pending: PendingApproval, texts: Mapping[str, str] | None = None, problems: Problems | None = None
) -> list[FormField]:
    """Returns the fields of an approval's form, filled with earlier input; empty if the approval has no form."""
    return form_fields(pending.form_schema, texts or {}, problems or {}) if pending.HasField("form_schema") else []


def rejection_text(pending: PendingApproval) -> str:
    """Returns the effect of a rejection."""
    if pending.HasField("tool_call"):
        return "The call is not made, and the model is told so."
    return "The run fails, and this cannot be undone."


def waiting_text(pending: PendingApproval) -> str:
    """Returns the time that an approval has waited, in words."""
    return formatting.duration(milliseconds_of(pending.waiting))


def _stream_address(review: Review) -> str:
    """Returns the address of the updates of an approval's page; empty for one that does not wait any more."""
    if review.state != APPROVAL_STATE_PENDING:
        return ""
    return f"{approval_address(review.pending.approval.approval_id)}/stream" + ("?preparing=yes" * review.preparing)


def _back(visit: Visit, approval_id: str) -> str:
    """Returns the page of a form that decided nothing: the inbox with the approval, the run's page, or its own page."""
    if visit.sent("inbox"):
        return inbox_address(visit.sent("gate"), approval_id, show=visit.sent("show"), opened=True)
    run_id = visit.sent("run_id")
    return run_address(run_id) if run_id else approval_address(approval_id)


_HISTORY_PAGE: Final = 50
_FILTERS: Final = ("workflow_id", "by", "decision", "from", "to")
_OUTCOMES: Final = {"approved": APPROVAL_STATE_APPROVED, "rejected": APPROVAL_STATE_REJECTED}
_LONGEST: Final = 256


async def show_history(visit: Visit) -> PageResult:
    """Lists decisions with their persons, newest first."""
    given = {name: value for name in _FILTERS if (value := visit.query.get(name, "").strip()[:_LONGEST])}
    problems: dict[str, str] = {}
    request = _request(given, problems)
    answer = ListAllDecisionsResponse()
    if not problems:
        request.page_token = visit.query.get("cursor", "")
        answer = await visit.services.call("ReviewsService/ListAllDecisions", request)
    token = answer.next_page_token if answer.HasField("next_page_token") else ""
    workflows = await every_workflow(visit)
    return View(
        "approvals/history.html",
        {
            "rows": [(each, formatting.approval_badge(each.decision.state)) for each in answer.items],
            "older": "/approvals/history?" + urlencode({**given, "cursor": token}) if token else "",
            "filters": {name: given.get(name, "") for name in _FILTERS},
            "filtered": bool(given),
            "here": urlencode(given),
            "problems": problems,
            "decisions": [("", "any"), *((name, name) for name in _OUTCOMES)],
            "workflows": [("", "any"), *((each.workflow_id, each.name) for each in workflows)],
        },
        status=400 if problems else 200,
    )


def _request(given: Mapping[str, str], problems: dict[str, str]) -> ListAllDecisionsRequest:
    """Returns the request of the filters; adds the problems of invalid filters to `problems`."""
    request = ListAllDecisionsRequest(
        page_size=_HISTORY_PAGE, workflow_id=given.get("workflow_id", "")[:128], decided_by=_person(given.get("by", ""))
    )
    if "decision" in given:
        if given["decision"] in _OUTCOMES:
            request.state = _OUTCOMES[given["decision"]]
        else:
            problems["decision"] = "must be approved or rejected"
    for name, field, more in (("from", request.decided_since, 0), ("to", request.decided_before, times.DAY_MS)):
        if name in given:
            try:
                field.CopyFrom(to_timestamp(times.start_of_day(given[name]) + more))
            except ValueError:
                problems[name] = times.DAY_RULE
    return request


def _person(name: str) -> str:
    """Returns the actor of a person's decisions; the name may be typed without the actor's prefix."""
    return f"user:{name}" if name and ":" not in name else name
