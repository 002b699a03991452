"""Live list of runs, with search, filters and order by query parameters, and figures of the last days."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final
from urllib.parse import urlencode

from console.forms.urlencoded import invalid
from console.pages.workflows import every_workflow
from console.rendering import formatting, times
from console.rendering.charts import day_strip, day_totals
from console.rendering.text import short
from console.run.changes import CHANGES
from console.sessions import PERSON
from console.visit import PageEvents, PageResult, View, Visit
from contract.fields import parse_enum_list
from contract.refusals import Refusal
from contract.times import milliseconds_of, to_timestamp
from workflow_api.v1.keys_pb2 import KeyRecord, ListKeysRequest
from workflow_api.v1.run_lists_pb2 import (
    FoundRun,
    GetRunDaysRequest,
    GetRunDaysResponse,
    ListFoundRunsRequest,
    ListFoundRunsResponse,
    RunOrder,
)
from workflow_api.v1.runs_pb2 import RunStatus
from workflow_api.v1.workflows_pb2 import Workflow

NO_KEY: Final = "none"
"""The filter of runs that no key started."""

OLDEST: Final = "oldest"
"""The value of `sort` for the oldest runs first; the newest come first without it."""

ORDERS: Final = {
    "duration": RunOrder.RUN_ORDER_DURATION_ASCENDING,
    "-duration": RunOrder.RUN_ORDER_DURATION_DESCENDING,
    "cost": RunOrder.RUN_ORDER_COST_ASCENDING,
    "-cost": RunOrder.RUN_ORDER_COST_DESCENDING,
    "status": RunOrder.RUN_ORDER_STATUS_ASCENDING,
    "-status": RunOrder.RUN_ORDER_STATUS_DESCENDING,
}
"""Orders by other values of `sort`, which begin with a hyphen for the highest first."""

_SORTS: Final = {
    "Status": ("status", "-status"),
    "Created": ("", OLDEST),
    "Duration": ("-duration", "duration"),
    "Cost (USD)": ("-cost", "cost"),
}
"""Values of `sort` that the head of a column leads to: first the one for a list in another order, then its reverse."""

FILTERS: Final = ("q", "status", "workflow_id", "key", "by", "from", "to", "sort")
"""Names of the filters in the address, and of the order."""

_SHOWN: Final = frozenset(FILTERS) - {"sort"}
"""Filters with a field on the page, beside which a problem stands."""
_PAGE: Final = 50
_MOST_KEYS: Final = 100
_MOST_LABELS: Final = 3
_WRONG: Final = frozenset({"invalid_filter", "invalid_cursor", "invalid_request"})
_FIELDS: Final = {
    "search": "q",
    "key_id": "key",
    "started_by": "by",
    "created_after": "from",
    "created_before": "to",
    "page_token": "cursor",
}
"""Names in the address of the fields of a request that have another name there."""
_MOST_SHOWN_CHARS: Final = 60
POLL_SECONDS: Final = 3.0
"""Seconds between two reads of the shown runs."""
_COUNTING_SECONDS: Final = 1.0
_DAY_MS: Final = times.DAY_MS


async def show_list(visit: Visit) -> PageResult:
    """Lists runs; reports invalid filters on the page."""
    filters = _filters(visit)
    given = {name: value for name, value in filters.items() if value}
    sort = {"sort": given["sort"]} if "sort" in given else {}
    chosen = {name: value for name, value in given.items() if name not in sort}
    cursor = visit.query.get("cursor", "")
    answer, problems = ListFoundRunsResponse(), dict[str, str]()
    days, (workflows, keys) = await asyncio.gather(_days(visit), _choices(visit))
    try:
        answer = await visit.services.call("RunListsService/ListFoundRuns", found_runs_request(given, cursor))
    except Refusal as refusal:
        if refusal.code not in _WRONG:
            raise
        problems = _problems(refusal, {**given, "cursor": cursor})
    token = answer.next_page_token if answer.HasField("next_page_token") else ""
    now = times.now_ms()
    return View(
        "runs/list.html",
        {
            "rows": [_row(each, now) for each in answer.items],
            "next_page": _address({**given, "cursor": token}) if token else "",
            "first_page": _address(given) if cursor else "",
            "problems": problems,
            "elsewhere": [(name, why) for name, why in problems.items() if name not in _SHOWN],
            "filters": filters,
            "views": [(name, _address(view | sort), view == chosen) for name, view in _views(visit, now)],
            "chips": [(text, _address(_without(given, name))) for name, text in _chips(chosen, workflows, keys)],
            "unfiltered": _address(sort),
            "most_labels": _MOST_LABELS,
            "sort": filters["sort"],
            "sorts": dict(_sorts(given)),
            "ordered": filters["sort"] in ORDERS,
            "ordered_since": answer.ordered_since if answer.HasField("ordered_since") else None,
            "earlier": _earlier(given, answer),
            "statuses": [("", "any"), *((each, each.replace("_", " ")) for each in _statuses())],
            "workflows": [("", "any"), *((each.workflow_id, each.name) for each in workflows)],
            "keys": keys,
            "no_key": NO_KEY,
            "days": days.days,
            "strip": day_strip(days.days),
            "totals": day_totals(days.days),
            "changes": [change for change in CHANGES if visit.may(change.rpc)],
            "here": urlencode(given),
            # Reading thousands of runs anew every few seconds would cost more than a live list is worth.
            "stream": "" if problems or cursor or filters["sort"] in ORDERS else "/runs/stream?" + urlencode(given),
        },
        status=400 if problems else 200,
    )


async def stream(visit: Visit) -> PageResult:
    """Streams an update whenever the filtered newest runs or the figures have changed."""
    return PageEvents(_changes(visit))


async def _changes(visit: Visit) -> AsyncIterator[tuple[str, str]]:
    request = found_runs_request({name: value for name, value in _filters(visit).items() if value}, "")
    seen: bytes | None = None
    while True:
        answer: ListFoundRunsResponse = await visit.services.call("RunListsService/ListFoundRuns", request)
        days = await _days(visit)
        # Not compared: the service seals page tokens anew each time.
        answer.ClearField("next_page_token")
        now = sha256(answer.SerializeToString(deterministic=True) + days.SerializeToString(deterministic=True)).digest()
        if seen is not None and now != seen:
            yield "refresh", "changed"
        seen = now
        await asyncio.sleep(_COUNTING_SECONDS if days.counting else POLL_SECONDS)


def _problems(refusal: Refusal, given: Mapping[str, str]) -> dict[str, str]:
    """Returns the problems of a refused request by the names in the address, each with the value that is refused."""
    details = refusal.details if isinstance(refusal.details, list) else []
    found = {each["name"]: each["reason"] for each in details}
    if not found:
        name, _, why = refusal.message.partition(" ")
        found = {name: why.rstrip(".")}
    named = {_FIELDS.get(name, name): why for name, why in found.items()}
    if not named.keys() <= {*FILTERS, "cursor"}:
        return {"": refusal.message}
    return {
        name: f"{why}, not “{short(value, _MOST_SHOWN_CHARS)}”" if (value := given.get(name)) else why
        for name, why in named.items()
    }


def _earlier(given: Mapping[str, str], answer: ListFoundRunsResponse) -> str:
    """Returns the address of the list up to the day that an order looked back to; empty for the present list."""
    day = times.day(milliseconds_of(answer.ordered_since)) if answer.HasField("ordered_since") else given.get("to", "")
    return "" if given.get("to", "") == day else _address({**given, "to": day})


def _address(query: Mapping[str, str]) -> str:
    return f"/runs?{urlencode(query)}" if query else "/runs"


def _without(given: Mapping[str, str], left_out: str) -> dict[str, str]:
    return {name: value for name, value in given.items() if name != left_out}


def _sorts(given: Mapping[str, str]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yields each head of a column that sorts, with the address of the order and its present `aria-sort`."""
    sort = given.get("sort", "")
    for head, (first, reverse) in _SORTS.items():
        to = reverse if sort == first else first
        address = _address(_without(given, "sort") | ({"sort": to} if to else {}))
        ascending = (sort in ORDERS and not sort.startswith("-")) or sort == OLDEST
        yield head, (address, ("ascending" if ascending else "descending") if sort in (first, reverse) else "none")


def _views(visit: Visit, now: int) -> Sequence[tuple[str, dict[str, str]]]:
    """Returns the lists that people look for most, by name; for those who may start runs, also their own."""
    return (
        ("All", {}),
        *([("Mine", {"by": visit.user.name})] if visit.may("RunsService/StartRun") else []),
        ("Running", {"status": "running"}),
        ("Waiting", {"status": "queued,waiting_for_approval"}),
        ("Failed since yesterday", {"status": "failed", "from": times.day(now - _DAY_MS)}),
    )


def _chips(
    chosen: Mapping[str, str], workflows: Sequence[Workflow], keys: Sequence[KeyRecord]
) -> Iterator[tuple[str, str]]:
    """Yields the name of each filter that is given, and the filter in words."""
    names = {each.workflow_id: each.name for each in workflows} | {each.key.key_id: each.key.name for each in keys}
    names[NO_KEY] = "none"
    labels = {
        "q": "Find",
        "status": "Status",
        "workflow_id": "Workflow",
        "key": "Key",
        "by": "Started by",
        "from": "From",
        "to": "To",
    }
    for name, label in labels.items():
        if name in chosen:
            value = chosen[name]
            shown = value.replace("_", " ").replace(",", ", ") if name == "status" else value
            yield name, f"{label}: {names.get(value, value) if name in ('workflow_id', 'key') else shown}"


def _filters(visit: Visit) -> dict[str, str]:
    return {name: visit.query.get(name, "").strip() for name in FILTERS}


def _statuses() -> Sequence[str]:
    return [each for each in formatting.RUN_STATUSES.values() if each]


def found_runs_request(given: Mapping[str, str], page_token: str) -> ListFoundRunsRequest:
    """Returns the request for a page of the runs that filters choose, by their names in the address.

    Raises:
        Refusal: `invalid_request` with the problems of those that cannot be read.
    """
    problems: dict[str, str] = {}
    statuses: Sequence[int] = ()
    try:
        statuses = parse_enum_list(RunStatus.DESCRIPTOR, given["status"]) if "status" in given else ()
    except ValueError as error:
        problems["status"] = f"must be {error}"
    request = ListFoundRunsRequest(
        search=given.get("q", ""),
        status=[RunStatus.ValueType(status) for status in statuses],
        workflow_id=given.get("workflow_id"),
        page_size=_PAGE,
        page_token=page_token,
        oldest_first=given.get("sort") == OLDEST,
        order=ORDERS.get(given.get("sort", ""), RunOrder.RUN_ORDER_UNSPECIFIED),
    )
    if given.get("sort", OLDEST) not in (OLDEST, *ORDERS):
        problems["sort"] = f"must be one of {', '.join((OLDEST, *ORDERS))}, or left out for the newest first"
    if "by" in given:
        request.started_by = given["by"] if ":" in given["by"] else f"{PERSON}{given['by']}"
    if "key" in given:
        request.key_id = "" if given["key"] == NO_KEY else given["key"]
    for name, field, more in (("from", request.created_after, -1), ("to", request.created_before, _DAY_MS)):
        if name in given:
            try:
                field.CopyFrom(to_timestamp(times.start_of_day(given[name]) + more))
            except ValueError:
                problems[name] = times.DAY_RULE
    if problems:
        raise invalid(problems)
    return request


async def _days(visit: Visit) -> GetRunDaysResponse:
    if not visit.may("RunListsService/GetRunDays"):
        return GetRunDaysResponse()
    answer: GetRunDaysResponse = await visit.services.call("RunListsService/GetRunDays", GetRunDaysRequest())
    return answer


async def _choices(visit: Visit) -> tuple[Sequence[Workflow], Sequence[KeyRecord]]:
    """Returns the choices of the filters: workflows and keys; a refresh does not update them."""
    if visit.refresh:
        return (), ()
    workflows, keys = await asyncio.gather(every_workflow(visit), _keys(visit))
    return workflows, keys


async def _keys(visit: Visit) -> Sequence[KeyRecord]:
    """Returns the keys to choose from; people who may not see keys can type an id."""
    if not visit.may("KeysService/ListKeys"):
        return ()
    answer = await visit.services.call("KeysService/ListKeys", ListKeysRequest(page_size=_MOST_KEYS))
    keys: Sequence[KeyRecord] = answer.items
    return keys


def _row(found: FoundRun, now: int) -> Mapping[str, Any]:
    run = found.run
    lasted = None
    if run.HasField("duration"):
        lasted = milliseconds_of(run.duration)
    elif run.HasField("started_at") and not run.HasField("finished_at"):
        lasted = max(0, now - milliseconds_of(run.started_at))
    waited = milliseconds_of(found.waited)
    if found.HasField("waiting_since"):
        waited += max(0, now - milliseconds_of(found.waiting_since))
    return {
        "found": found,
        "run": run,
        "badge": formatting.run_badge(run.status),
        "error": " ".join((found.error.message or found.error.code).split()),
        "lasted": "" if lasted is None else formatting.duration(lasted),
        "waited": formatting.duration(waited) if waited else "",
        "waits": found.HasField("waiting_since"),
        "cost": _cost(found),
    }


def _cost(found: FoundRun) -> str:
    """Returns the known cost in US dollars; empty without calls of models, and where no price is known."""
    if found.unpriced_calls == found.model_calls:
        return ""
    known = f"{found.cost_microusd / 1_000_000:,.4f}"
    return f"at least {known}" if found.unpriced_calls else known
