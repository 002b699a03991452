"""Calls of keys in the present UTC day, by the hour."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from markupsafe import Markup

from contract.times import milliseconds_of, to_timestamp
from edge.console.rendering.charts import spark_line
from edge.console.rendering.times import DAY_MS, HOUR_MS
from edge.console.visit import Services
from workflow_api.v1.usage_pb2 import ListUsageHoursRequest

_MAX_COUNTS = 10_000


class CallsToday(NamedTuple):
    """How many calls a key made since 00:00 UTC, and how many of them were refused; with a bar for each hour."""

    calls: int = 0
    refused: int = 0
    bars: Markup = Markup("")


async def calls_today(services: Services, now: int, key_id: str | None = None) -> Mapping[str, CallsToday]:
    """Returns the calls of one key, or of all, by key id; what is not there made none.

    Raises:
        Refusal: as `Services.call`.
    """
    began = now - now % DAY_MS
    request = ListUsageHoursRequest(key_id=key_id, since=to_timestamp(began), page_size=_MAX_COUNTS)
    hours: defaultdict[str, Counter[int]] = defaultdict(Counter)
    refused: Counter[str] = Counter()
    for count in (await services.call("UsageService/ListUsageHours", request)).items:
        hours[count.key_id][(milliseconds_of(count.hour) - began) // HOUR_MS] += count.calls
        refused[count.key_id] += count.calls if count.status >= 400 else 0
    found: defaultdict[str, CallsToday] = defaultdict(CallsToday)
    for each, by_hour in hours.items():
        bars = spark_line([by_hour[hour] for hour in range(24)], f"{by_hour.total():,} calls today, by the hour")
        found[each] = CallsToday(by_hour.total(), refused[each], bars)
    return found
