"""Pages of the use of models: of one run by step, and by day, key, workflow and model, also as CSV."""

from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from console.pages.run import GONE, missing
from console.rendering import formatting
from console.rendering.exports import csv_text
from console.rendering.times import DAY_MS, now_ms, utc_text
from console.visit import FileDownload, PageResult, View, Visit
from contract.paging import next_page
from contract.refusals import Refusal
from contract.times import milliseconds_of, to_timestamp
from workflow_api.v1.keys_pb2 import GetKeyRequest
from workflow_api.v1.model_usage_pb2 import (
    GetRunModelUsageRequest,
    ListModelUsageDaysRequest,
    ListModelUsageDaysResponse,
    ModelUsageDay,
    ModelUse,
)

DAYS: Final = 90
_PAGE: Final = 10_000
_MOST_LINES: Final = 200
NUMBER_FIELDS: Final = tuple(field.name for field in ModelUse.DESCRIPTOR.fields)


class UsageLine(NamedTuple):
    """One row of a table: name, link or "", use, and cost as text."""

    name: str
    link: str
    use: ModelUse
    cost: str


async def run_usage(visit: Visit) -> PageResult:
    """Shows the use of models by a run, alone and with its children, and by its steps."""
    run_id = visit.path["run_id"]
    try:
        usage = await visit.services.call("ModelUsageService/GetRunModelUsage", GetRunModelUsageRequest(run_id=run_id))
    except Refusal as refusal:
        if refusal.code not in GONE:
            raise
        return missing(refusal.message)
    return View(
        "usage/run.html",
        {
            "run_id": run_id,
            "own": UsageLine("This run", "", usage.own, formatting.cost(usage.own)),
            "with_children": UsageLine(
                "With its children", "", usage.with_children, formatting.cost(usage.with_children)
            ),
            "steps": [(step, formatting.cost(step.use)) for step in usage.steps],
        },
    )


async def all_models(visit: Visit) -> PageResult:
    """Shows the use of models of the last 90 days by day, workflow, key and model."""
    return await _days_page(visit, None, "")


async def key_models(visit: Visit) -> PageResult:
    """Shows the use of models by the runs of one key."""
    key_id = visit.path["key_id"]
    try:
        record = await visit.services.call("KeysService/GetKey", GetKeyRequest(key_id=key_id))
    except Refusal as refusal:
        if refusal.code != "not_found":
            raise
        page = await _days_page(visit, key_id, "")
        if not page.context["tables"]:
            raise
        # The deletion of a key leaves what its runs used.
        return page
    return await _days_page(visit, key_id, record.key.name)


async def all_models_csv(visit: Visit) -> PageResult:
    """Returns the use of models of the last 90 days as CSV."""
    return FileDownload(_csv_parts(visit, _request(None)), "models.csv", "text/csv")


async def key_models_csv(visit: Visit) -> PageResult:
    """Returns the use of models by the runs of one key as CSV."""
    return FileDownload(_csv_parts(visit, _request(visit.path["key_id"])), "models.csv", "text/csv")


def _request(key_id: str | None) -> ListModelUsageDaysRequest:
    today = now_ms() - now_ms() % DAY_MS
    return ListModelUsageDaysRequest(key_id=key_id, since=to_timestamp(today - (DAYS - 1) * DAY_MS), page_size=_PAGE)


async def _days_page(visit: Visit, key_id: str | None, key_name: str) -> View:
    read: ListModelUsageDaysResponse = await visit.services.call(
        "ModelUsageService/ListModelUsageDays", _request(key_id)
    )
    items = read.items
    return View(
        "usage/models.html",
        {
            "key_id": key_id,
            "key_name": key_name,
            "days": DAYS,
            "cut_off": read.HasField("next_page_token"),
            "tables": [
                ("Day (UTC)", _sums_by_name(items, _day, lambda _: "", by_name=True)),
                ("Workflow", _sums_by_name(items, lambda item: item.workflow_name or item.workflow_id, _workflow_link)),
                *([] if key_id else [("Key", _sums_by_name(items, lambda item: item.key_id or "no key", _key_link))]),
                ("Model", _sums_by_name(items, lambda item: item.model, lambda _: "")),
            ]
            if items
            else [],
        },
    )


def _day(item: ModelUsageDay) -> str:
    return utc_text(milliseconds_of(item.day))[:10]


def _workflow_link(item: ModelUsageDay) -> str:
    return f"/workflows/{item.workflow_id}" if item.workflow_name else ""


def _key_link(item: ModelUsageDay) -> str:
    return f"/keys/{item.key_id}/models" if item.key_id else ""


def _sums_by_name(
    items: Iterable[ModelUsageDay],
    name_of: Callable[[ModelUsageDay], str],
    link_of: Callable[[ModelUsageDay], str],
    *,
    by_name: bool = False,
) -> Sequence[UsageLine]:
    """Returns sums by name, most tokens first; with `by_name`, the greatest name first, as for days."""
    sums: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for item in items:
        sums[name_of(item), link_of(item)].update({name: getattr(item.use, name) for name in NUMBER_FIELDS})
    lines = [_line(*named, numbers) for named, numbers in sums.items()]
    if by_name:
        lines.sort(key=lambda line: line.name, reverse=True)
    else:
        lines.sort(key=lambda line: (-line.use.input_tokens - line.use.output_tokens, line.name))
    return lines[:_MOST_LINES]


def _line(name: str, link: str, numbers: Mapping[str, int]) -> UsageLine:
    use = ModelUse(**numbers)
    return UsageLine(name, link, use, formatting.cost(use))


async def _csv_parts(visit: Visit, request: ListModelUsageDaysRequest) -> AsyncGenerator[bytes, None]:
    """Yields the lines of all rows, page by page; the first part begins with the header row."""
    rows: list[Sequence[object]] = [("day", "key_id", "workflow_id", "workflow_name", "model", *NUMBER_FIELDS)]
    more = True
    while more:
        read: ListModelUsageDaysResponse = await visit.services.call("ModelUsageService/ListModelUsageDays", request)
        rows += [
            (
                _day(item),
                item.key_id,
                item.workflow_id,
                item.workflow_name,
                item.model,
                *(getattr(item.use, name) for name in NUMBER_FIELDS),
            )
            for item in read.items
        ]
        yield csv_text(rows).encode()
        rows, more = [], read.HasField("next_page_token")
        request = next_page(request, read.next_page_token)
