"""Who decided which approvals, filtered by the address."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode

from console.pages.workflows import every_workflow
from console.rendering import formatting, times
from console.visit import PageResult, View, Visit
from contract.times import to_timestamp
from workflow_api.v1.reviews_pb2 import (
    APPROVAL_STATE_APPROVED,
    APPROVAL_STATE_REJECTED,
    ListAllDecisionsRequest,
    ListAllDecisionsResponse,
)

_PAGE: Final = 50
_FILTERS: Final = ("workflow_id", "by", "decision", "from", "to")
_DECISIONS: Final = {"approved": APPROVAL_STATE_APPROVED, "rejected": APPROVAL_STATE_REJECTED}
_LONGEST: Final = 256


async def show(visit: Visit) -> PageResult:
    """Lists who decided what, newest first."""
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
            "problems": problems,
            "decisions": [("", "any"), *((name, name) for name in _DECISIONS)],
            "workflows": [("", "any"), *((each.workflow_id, each.name) for each in workflows)],
        },
        status=400 if problems else 200,
    )


def _request(given: Mapping[str, str], problems: dict[str, str]) -> ListAllDecisionsRequest:
    """Returns the request that the filters stand for, and adds the problems of those that stand for nothing."""
    request = ListAllDecisionsRequest(
        page_size=_PAGE, workflow_id=given.get("workflow_id", "")[:128], decided_by=_person(given.get("by", ""))
    )
    if "decision" in given:
        if given["decision"] in _DECISIONS:
            request.state = _DECISIONS[given["decision"]]
        else:
            problems["decision"] = "must be approved or rejected"
    for name, field, more in (("from", request.decided_since, 0), ("to", request.decided_before, times.DAY_MS)):
        if name in given:
            try:
                field.CopyFrom(to_timestamp(times.start_of_day(given[name]) + more))
            except ValueError:
                problems[name] = "must be a day such as 2026-09-24"
    return request


def _person(name: str) -> str:
    """Returns how a decision names a person, whose name alone may be typed."""
    return f"user:{name}" if name and ":" not in name else name
