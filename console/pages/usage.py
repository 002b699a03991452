"""Usage pages: counts, latencies and newest calls, of one key or of all keys, also as CSV."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from console.keys.trial import explanation
from console.keys.usage_counts import (
    BREAKDOWNS,
    KINDS,
    WINDOWS,
    Window,
    bars_of,
    latencies,
    routes,
    stacks,
    window_between,
    window_named,
)
from console.rendering.charts import bar_chart
from console.rendering.exports import csv_text
from console.rendering.times import now_ms, utc_text
from console.visit import FileDownload, PageResult, View, Visit
from contract.paging import next_page
from contract.times import milliseconds_of, to_timestamp
from workflow_api.v1 import deployment_pb2, keys_pb2, usage_pb2

_MAX_COUNTS: Final = 10_000
_SEARCHED_RECORDS: Final = 1_000
_SHOWN_RECORDS: Final = 25
_NO_RANGE: Final = "must be two days in order, at most 90 with those between"


class _UsageQuery(NamedTuple):
    """Query of the page: window until `until`, property to stack by, and the problem of the range, if any."""

    window: Window
    until: int
    by: str
    first: str
    last: str
    problem: str


async def all_usage(visit: Visit) -> PageResult:
    """Shows the usage of the deployment, including calls without an identified key."""
    return await _usage(visit, None)


async def key_usage(visit: Visit) -> PageResult:
    """Shows the usage of one key, with refusals explained by its rules."""
    key_id = visit.path["key_id"]
    return await _usage(visit, await visit.services.call("KeysService/GetKey", keys_pb2.GetKeyRequest(key_id=key_id)))


async def all_counts(visit: Visit) -> PageResult:
    """Returns the counts of the deployment as CSV."""
    return await _csv(visit, None)


async def key_counts(visit: Visit) -> PageResult:
    """Returns the counts of one key as CSV."""
    return await _csv(visit, visit.path["key_id"])


async def _usage(visit: Visit, record: keys_pb2.KeyRecord | None) -> View:
    key_id = None if record is None else record.key.key_id
    query = _read_query(visit.query, now_ms())
    since = query.window.starts(query.until)[0]
    (counts, cut_off), newest = await asyncio.gather(
        _counts(visit, key_id, since, query.until),
        visit.services.call(
            "UsageService/ListUsageRecords",
            usage_pb2.ListUsageRecordsRequest(key_id=key_id, page_size=_SEARCHED_RECORDS),
        ),
    )
    names, found = stacks(counts, query.window, query.until, query.by)
    styles = KINDS if query.by == "outcome" else [str(number) for number in range(len(names))]
    at_least = "At least " if cut_off else ""
    summary = f"{at_least}{sum(span.calls for span in found):,} calls {query.window.when}"
    refusals = [each for each in newest.items if each.status >= 400][:_SHOWN_RECORDS]
    chosen = {"window": query.window.name} if query.window in WINDOWS else {"from": query.first, "to": query.last}
    return View(
        "usage/show.html",
        {
            "key": None if record is None else record.key,
            "asked": query,
            "windows": WINDOWS,
            "breakdowns": [(name, urlencode({**chosen, "by": name})) for name in BREAKDOWNS],
            "csv": urlencode(chosen),
            "summary": summary,
            "cut_off": cut_off,
            "chart": bar_chart(bars_of(found, query.window), names, f"{summary}; a table follows", styles),
            "series": list(zip(names, styles, strict=True)),
            "spans": [span for span in reversed(found) if span.calls],
            "routes": routes(counts),
            "latencies": latencies(newest.items),
            "refusals": await _explained(visit, record, refusals),
            "calls": [(each, "") for each in newest.items[:_SHOWN_RECORDS]],
        },
        status=400 if query.problem else 200,
    )


async def _csv(visit: Visit, key_id: str | None) -> FileDownload:
    query = _read_query(visit.query, now_ms())
    request = _counts_request(key_id, query.window.starts(query.until)[0], query.until)
    return FileDownload(_csv_parts(visit, request), "usage.csv", "text/csv")


async def _csv_parts(visit: Visit, request: usage_pb2.ListUsageHoursRequest) -> AsyncGenerator[bytes, None]:
    """Yields the lines of all counts, page by page; the first part begins with the header row."""
    rows: list[Sequence[object]] = [("hour", "key_id", "method", "route", "status", "calls")]
    more = True
    while more:
        hours = await visit.services.call("UsageService/ListUsageHours", request)
        rows += [
            (utc_text(milliseconds_of(each.hour)), each.key_id, each.method, each.route, each.status, each.calls)
            for each in hours.items
        ]
        yield csv_text(rows).encode()
        rows, more = [], hours.HasField("next_page_token")
        request = next_page(request, hours.next_page_token)


async def _counts(
    visit: Visit, key_id: str | None, since: int, until: int
) -> tuple[Sequence[usage_pb2.UsageHour], bool]:
    """Returns the counts of a time range, newest hour first, and whether older counts are left out."""
    hours = await visit.services.call("UsageService/ListUsageHours", _counts_request(key_id, since, until))
    return hours.items, hours.HasField("next_page_token")


def _counts_request(key_id: str | None, since: int, until: int) -> usage_pb2.ListUsageHoursRequest:
    return usage_pb2.ListUsageHoursRequest(
        key_id=key_id, since=to_timestamp(since), until=to_timestamp(until + 1), page_size=_MAX_COUNTS
    )


async def _explained(
    visit: Visit, record: keys_pb2.KeyRecord | None, refusals: Sequence[usage_pb2.UsageRecord]
) -> Sequence[tuple[usage_pb2.UsageRecord, str]]:
    """Returns refusals, each with the reason by the rules of its key."""
    if record is None or not refusals:
        return [(each, "") for each in refusals]
    deployment = await visit.services.call("DeploymentService/GetDeployment", deployment_pb2.GetDeploymentRequest())
    return [(each, await explanation(record, deployment, each, visit.try_call)) for each in refusals]


def _read_query(query: Mapping[str, str], now: int) -> _UsageQuery:
    first, last = query.get("from", ""), query.get("to", "")
    by = query.get("by", "")
    given: dict[str, Any] = {"by": by if by in BREAKDOWNS else "outcome", "first": first, "last": last}
    if first or last:
        try:
            window, until = window_between(first, last)
        except ValueError:
            return _UsageQuery(WINDOWS[0], now, **given, problem=_NO_RANGE)
        return _UsageQuery(window, until, **given, problem="")
    return _UsageQuery(window_named(query.get("window", "")), now, **given, problem="")
