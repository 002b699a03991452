"""Usage pages: counts and newest calls, of one key or of all."""

import asyncio
from typing import Final

from contract.times import to_timestamp
from edge.console.charts import bar_chart
from edge.console.times import now_ms
from edge.console.usage_counts import KINDS, WINDOWS, bars_of, routes, spans, window_named
from edge.console.visit import ADMINISTRATORS, Answered, Page, View, Visit
from workflow_api.v1 import keys_pb2, usage_pb2

_MAX_COUNTS: Final = 10_000
_SEARCHED_RECORDS: Final = 1_000
_SHOWN_RECORDS: Final = 25


async def all_usage(visit: Visit) -> Answered:
    """Shows the usage of the deployment, including calls without an identified key."""
    return await _usage(visit, None)


async def key_usage(visit: Visit) -> Answered:
    """Shows the usage of one key."""
    key_id = visit.path["key_id"]
    record = await visit.services.call("KeysService/GetKey", keys_pb2.GetKeyRequest(key_id=key_id))
    return await _usage(visit, record.key)


async def _usage(visit: Visit, key: keys_pb2.ApiKey | None) -> View:
    key_id = None if key is None else key.key_id
    window = window_named(visit.query.get("window", ""))
    now = now_ms()
    since = window.starts(now)[0]
    hours, newest = await asyncio.gather(
        visit.services.call(
            "UsageService/ListUsageHours",
            usage_pb2.ListUsageHoursRequest(key_id=key_id, since=to_timestamp(since), page_size=_MAX_COUNTS),
        ),
        visit.services.call(
            "UsageService/ListUsageRecords",
            usage_pb2.ListUsageRecordsRequest(key_id=key_id, page_size=_SEARCHED_RECORDS),
        ),
    )
    found = spans(hours.items, window, now)
    cut_off = hours.HasField("next_page_token")
    at_least = "At least " if cut_off else ""
    summary = f"{at_least}{sum(span.calls for span in found):,} calls in the last {window.label}"
    return View(
        "usage/show.html",
        {
            "key": key,
            "window": window,
            "windows": WINDOWS,
            "summary": summary,
            "cut_off": cut_off,
            "chart": bar_chart(bars_of(found), KINDS, f"{summary}; a table follows"),
            "kinds": KINDS,
            "spans": [span for span in reversed(found) if span.calls],
            "routes": routes(hours.items),
            "refusals": [record for record in newest.items if record.status >= 400][:_SHOWN_RECORDS],
            "calls": newest.items[:_SHOWN_RECORDS],
        },
    )


PAGES: Final[tuple[Page, ...]] = (
    Page("GET", "/usage", ADMINISTRATORS, all_usage),
    Page("GET", "/keys/{key_id}/usage", ADMINISTRATORS, key_usage),
)
