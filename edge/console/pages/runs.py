"""The list of runs."""

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

import orjson

from contract.fields import rules_of
from edge.codec.enum_lists import parse_enum_list
from edge.codec.response import object_of
from edge.console import formatting
from edge.console.pages.workflows import every_workflow
from edge.console.visit import ALL_ROLES, Answered, Page, View, Visit
from edge.errors import Refusal
from workflow_api.v1.pii_policy_pb2 import PiiPolicy
from workflow_api.v1.runs_pb2 import (
    CancelRunRequest,
    ListRunsRequest,
    RunStatus,
)

MAX_REASON_CHARS: Final = rules_of(CancelRunRequest.DESCRIPTOR.fields_by_name["reason"]).max_length

_PAGE: Final = 50
_POLICY_OBJECT: Final = object_of(PiiPolicy.DESCRIPTOR, raw=orjson.Fragment, links=orjson.Fragment)
_FILTERS: Final = ("status", "workflow_id", "client_reference")
_SEQ: Final = re.compile(r"[0-9]{1,18}")
_GONE: Final = frozenset({"run_not_found", "not_found", "segment_not_found"})


async def show_list(visit: Visit) -> Answered:
    """Lists runs, newest first; a filter that the service refuses is reported on the page."""
    filters = {name: visit.query.get(name, "").strip() for name in _FILTERS}
    given = {name: value for name, value in filters.items() if value}
    rows: list[Any] = []
    older = problem = ""
    try:
        request = _list_request(given, visit.query.get("cursor", ""))
        answer = await visit.services.call("RunsService/ListRuns", request)
    except Refusal as refusal:
        if refusal.code not in {"invalid_filter", "invalid_cursor"}:
            raise
        problem = refusal.message
    else:
        rows = [(run, formatting.run_badge(run.status)) for run in answer.items]
        if answer.HasField("next_page_token"):
            older = "/runs?" + urlencode({**given, "cursor": answer.next_page_token})
    statuses = [("", "any"), *((each, each.replace("_", " ")) for each in formatting.RUN_STATUSES.values() if each)]
    workflows = [("", "any"), *((each.workflow_id, each.name) for each in await every_workflow(visit))]
    return View(
        "runs/list.html",
        {
            "rows": rows,
            "older": older,
            "problem": problem,
            "filters": filters,
            "filtered": bool(given),
            "statuses": statuses,
            "workflows": workflows,
        },
        status=400 if problem else 200,
    )


def _list_request(given: Mapping[str, str], page_token: str) -> ListRunsRequest:
    try:
        statuses = parse_enum_list(RunStatus.DESCRIPTOR, given["status"]) if "status" in given else ()
    except ValueError as error:
        raise Refusal("invalid_filter", f"status must be {error}.") from None
    return ListRunsRequest(
        status=[RunStatus.ValueType(status) for status in statuses],
        workflow_id=given.get("workflow_id"),
        client_reference=given.get("client_reference"),
        page_size=_PAGE,
        page_token=page_token,
    )


PAGES: Final[tuple[Page, ...]] = (Page("GET", "/runs", ALL_ROLES, show_list),)
