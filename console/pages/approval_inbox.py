"""Inbox of approvals, of one gate or all, oldest first, with the material of the chosen approval."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from hashlib import sha256
from typing import Any, Final
from urllib.parse import urlencode

from console.addresses import approval_address, inbox_address
from console.approvals import (
    DECISIONS,
    PartLimits,
    call_of,
    deadline_of,
    decide,
    deciders_text,
    page_of,
    parts_of,
    review_of,
    reviews_of,
)
from console.http.static_files import MOST_COUNTED
from console.pages.approval_care import snooze_choices
from console.pages.approvals import MAX_COMMENT_CHARS, fields_of, rejection_text, waiting_text
from console.rendering import formatting
from console.rendering.text import short, short_id
from console.visit import PageEvents, PageResult, Redirect, View, Visit
from contract.refusals import Refusal
from workflow_api.v1.reviews_pb2 import (
    APPROVAL_STATE_PENDING,
    CountPendingApprovalsRequest,
    CountPendingApprovalsResponse,
    PendingGate,
)
from workflow_api.v1.runs_pb2 import (
    PENDING_VIEW_AWAKE,
    PENDING_VIEW_MINE,
    PENDING_VIEW_SNOOZED,
    ListPendingApprovalsRequest,
    ListPendingApprovalsResponse,
    PendingApproval,
    PendingView,
)

_PAGE: Final = 50
_MOST_NAMED: Final = 5
POLL_SECONDS: Final = 2.0
"""Seconds between two reads of the pending approvals."""
_REVIEW_SECONDS: Final = 0.1
"""Time for which the page waits for the material of an approval; once it is prepared, the open page is updated."""
_LIMITS: Final = PartLimits(parts=8, chars=4_000, rows=10, below=4)
_MOST_ABOUT_CHARS: Final = 160
"""Most characters of an approval's description in the list."""
_MOST_SUMMARY_CHARS: Final = 200
"""Most characters of an approval's summary in the list and in questions."""
_VIEWS: Final = {"": PENDING_VIEW_AWAKE, "mine": PENDING_VIEW_MINE, "snoozed": PENDING_VIEW_SNOOZED}
_VIEW_LABELS: Final = (("", "All"), ("mine", "Mine"), ("snoozed", "Snoozed"))


async def show(visit: Visit) -> PageResult:
    """Shows the pending approvals of all gates or of one, and the material of the chosen approval."""
    gate, cursor, view = visit.query.get("gate", ""), visit.query.get("cursor", ""), _view(visit.query)
    listed, counted = await asyncio.gather(_pending(visit, gate, cursor, view), _count(visit))
    chosen = await _chosen(visit, listed.items)
    token = listed.next_page_token if listed.HasField("next_page_token") else ""
    at = chosen["id"] if chosen else ""
    opened = bool(visit.query.get("open"))
    to = partial(inbox_address, gate, show=view)
    return View(
        "approvals/list.html",
        {
            "items": [_item(each, to(each.approval.approval_id, cursor, opened=True), at) for each in listed.items],
            "chosen": chosen,
            "following": _following([each.approval.approval_id for each in listed.items], at),
            # A refresh keeps the approval that the page shows, even once it is decided.
            "pinned": to(at, cursor, opened=opened) if at else "",
            "next": to(cursor=cursor, opened=opened),
            "list": to(cursor=cursor),
            "opened": opened,
            "show": view,
            "views": [(label, inbox_address(gate, show=name), name == view) for name, label in _VIEW_LABELS],
            "total": counted.total,
            "icon": f"count-{min(counted.total, MOST_COUNTED)}.svg",
            "gates": [("", "all"), *((gate_name(each), _gate_label(each)) for each in counted.gates)],
            "gate": gate,
            "newer": to(cursor=token) if token else "",
            "stream": "/approvals/stream?" + urlencode({"gate": gate, "cursor": cursor, "at": at, "show": view}),
            "longest": MAX_COMMENT_CHARS,
        },
    )


async def stream(visit: Visit) -> PageResult:
    """Streams an update whenever the list or the chosen approval has changed."""
    return PageEvents(_changes(visit))


async def decide_several(visit: Visit) -> PageResult:
    """Decides the chosen approvals of one gate, once the person has confirmed."""
    gate, decision, comment = visit.sent("gate"), visit.sent("decision"), visit.sent("comment")
    chosen = list(dict.fromkeys(visit.form.get("approval_id", ())))
    if not gate or decision not in DECISIONS or not chosen or len(comment) > MAX_COMMENT_CHARS:
        return Redirect(inbox_address(gate), "Nothing was changed: choose approvals of one gate, and how to decide.")
    if len(chosen) > _PAGE:
        return Redirect(inbox_address(gate), f"Nothing was changed: at most {_PAGE} are decided at once.")
    found = await reviews_of(visit.services, chosen)
    # A form decides only approvals that wait at its gate.
    open_ones = [each for each in found if each.state == APPROVAL_STATE_PENDING and _gate_of(each.pending) == gate]
    waiting = [each.pending for each in open_ones if not each.preparing]
    unprepared = [each.pending.run_id for each in open_ones if each.preparing]
    alone = [
        each.pending
        for each in open_ones
        if each.pending.excluded or (DECISIONS[decision] and _needs_look(each.pending))
    ]
    if alone:
        notice = "Nothing was changed: one with a form, a call, or other approvers is decided on its own page."
        return Redirect(inbox_address(gate, alone[0].approval.approval_id, opened=True), notice)
    if not visit.sent("sure"):
        context = {
            "items": [(each, waiting_text(each), deadline_of(each)) for each in waiting],
            "unprepared": unprepared,
            "longest": MAX_COMMENT_CHARS,
            "gate": gate,
            "decision": decision,
            "comment": comment,
            "back": inbox_address(gate),
        }
        return View("approvals/sure.html", context)
    notice = await _decided(visit, waiting, len(chosen) - len(unprepared), decision, comment)
    return Redirect(inbox_address(gate), notice + _left_out(unprepared))


def _gate_of(pending: PendingApproval) -> str:
    return f"{pending.approval.step}@{pending.workflow_id}"


def _left_out(run_ids: Sequence[str]) -> str:
    """Returns the end of a notice about approvals that were still being prepared; a notice has no place for 50."""
    if not run_ids:
        return ""
    more = len(run_ids) - _MOST_NAMED
    names = ", ".join(run_ids[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    return f" Not decided, because what they are about is still being prepared: {names}."


def _needs_look(pending: PendingApproval) -> bool:
    """Returns whether an approval has content of its own that a person must see, or fill in, to approve it."""
    return pending.HasField("form_schema") or pending.HasField("tool_call")


def gate_name(gate: PendingGate) -> str:
    """Returns the name of a gate in addresses: the step, then the workflow."""
    return f"{gate.step}@{gate.workflow_id}"


async def _decided(visit: Visit, waiting: Sequence[PendingApproval], chosen: int, decision: str, comment: str) -> str:
    """Decides the approvals of `chosen` that still wait; returns a summary, also where a later refusal stops.

    Raises:
        Refusal: the refusal of the first approval.
    """
    made, stopped = 0, ""
    for number, each in enumerate(waiting):
        try:
            made += await decide(visit.services, each.approval.approval_id, decision, comment) is not None
        except Refusal as refusal:
            if number == 0:
                raise
            after = len(waiting) - number - 1
            stopped = f" Look at {each.run_id}, which was answered: {refusal.message}"
            stopped += f" Not decided: {after} after it." if after else ""
            chosen -= len(waiting) - number
            break
    late = chosen - made
    notice = f"{'Approved' if DECISIONS[decision] else 'Rejected'}: {made}."
    return notice + (f" No longer pending: {late}." if late else "") + stopped


async def _changes(visit: Visit) -> AsyncIterator[tuple[str, str]]:
    gate, at, view = visit.query.get("gate", ""), visit.query.get("at", ""), _view(visit.query)
    cursor = visit.query.get("cursor", "")
    seen: bytes | None = None
    shown, prepared = "", True
    while True:
        listed, counted = await asyncio.gather(_pending(visit, gate, cursor, view), _count(visit))
        ids = [each.approval.approval_id for each in listed.items]
        marks = [(_urgency(each), each.HasField("reminded_at"), each.assigned_to) for each in listed.items]
        # The approval that the page shows: the one named by its address, else the oldest.
        chosen = at or (ids[0] if ids else "")
        if chosen != shown:
            shown, prepared = chosen, not chosen
        if not prepared:
            review = await review_of(visit.services, shown, _REVIEW_SECONDS)
            prepared = review is None or not review.preparing
        state = (ids, marks, counted.total, shown, prepared)
        now = sha256(repr(state).encode()).digest()
        if seen is not None and now != seen:
            yield "refresh", "changed"
        seen = now
        await asyncio.sleep(POLL_SECONDS)


def _view(query: Mapping[str, str]) -> str:
    """Returns the part of the inbox that an address names; the first for any other text."""
    asked = query.get("show", "")
    return asked if asked in _VIEWS else ""


def _request(gate: str, size: int, cursor: str, view: PendingView.ValueType) -> ListPendingApprovalsRequest:
    step, _, workflow_id = gate.rpartition("@")
    return ListPendingApprovalsRequest(
        page_size=size,
        page_token=cursor,
        step=step if gate else None,
        workflow_id=workflow_id if gate else None,
        by_deadline=True,
        view=view,
    )


async def _pending(visit: Visit, gate: str, cursor: str, view: str) -> ListPendingApprovalsResponse:
    answer: ListPendingApprovalsResponse = await visit.services.call(
        "RunsService/ListPendingApprovals", _request(gate, _PAGE, cursor, _VIEWS[view])
    )
    return answer


async def _count(visit: Visit) -> CountPendingApprovalsResponse:
    answer: CountPendingApprovalsResponse = await visit.services.call(
        "ReviewsService/CountPendingApprovals", CountPendingApprovalsRequest()
    )
    return answer


async def _chosen(visit: Visit, listed: Sequence[PendingApproval]) -> Mapping[str, Any] | None:
    """Returns the approval that the address names, decided or not, else the oldest listed; None without either."""
    by_id = {each.approval.approval_id: each for each in listed}
    approval_id = visit.query.get("at", "") or next(iter(by_id), "")
    if not approval_id:
        return None
    pending = by_id.get(approval_id)
    # An approval that is not listed is known from the answer alone.
    review = await review_of(visit.services, approval_id, _REVIEW_SECONDS if pending else None)
    if review is None or (review.state != APPROVAL_STATE_PENDING and not review.preparing):
        return {
            "id": approval_id,
            "open": False,
            "review": review,
            "state": review and formatting.approval_badge(review.state),
        }
    parts, following = page_of(parts_of(review.material), 0, _LIMITS)
    pending = pending or review.pending
    return {
        "id": approval_id,
        "open": True,
        "pending": pending,
        "about": (about := _question_subject(pending)),
        "rejection": f"Reject {about}? {rejection_text(pending)}",
        "review": review,
        "waiting": waiting_text(pending),
        "deadline": deadline_of(pending),
        "deciders": deciders_text(pending),
        "call": call_of(pending),
        "fields": fields_of(pending),
        "parts": parts,
        "address": approval_address(approval_id),
        "mine": pending.assigned_to == visit.user.name,
        "snoozes": snooze_choices(visit, pending),
        "cut": following is not None or any(each.following is not None for each in parts),
    }


def _following(ids: Sequence[str], at: str) -> str:
    """Returns the approval to go on with after the one that is shown: the next of the list, at its end the one before.

    Empty where the list has no other.
    """
    if at not in ids:
        return next(iter(ids), "")
    place = ids.index(at)
    return next(iter((*ids[place + 1 : place + 2], *ids[max(place - 1, 0) : place])), "")


def _question_subject(pending: PendingApproval) -> str:
    """Returns the values of an approval that tell it from others, for questions about it."""
    values = (pending.workflow_name, short(pending.summary, _MOST_SUMMARY_CHARS), pending.client_reference)
    return f"“{pending.approval.title}” of {pending.run_id} ({', '.join(filter(None, values))})"


def _item(pending: PendingApproval, to: str, at: str) -> Mapping[str, Any]:
    labels = (f"{name}: {value}" for name, value in sorted(pending.labels.items()))
    about = ", ".join((pending.workflow_name, *labels))
    subject = ": ".join(filter(None, (pending.client_reference, pending.summary))) or short_id(pending.run_id)
    return {
        "pending": pending,
        "about": short(about, _MOST_ABOUT_CHARS),
        "subject": short(subject, _MOST_SUMMARY_CHARS),
        "deadline": deadline_of(pending),
        "reminded": pending.HasField("reminded_at"),
        "to": to,
        "current": pending.approval.approval_id == at,
    }


def _urgency(pending: PendingApproval) -> str:
    """Returns the kind of the badge of a deadline, which changes twice at most."""
    deadline = deadline_of(pending)
    return "" if deadline is None else deadline.kind


def _gate_label(gate: PendingGate) -> str:
    return f"{gate.workflow_name}: {gate.title} ({gate.pending:,})"
