"""Calls of keys in the present UTC day, by the hour."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup

from console.rendering.charts import spark_line
from console.rendering.times import DAY_MS, HOUR_MS
from console.visit import Services
from contract.times import milliseconds_of, to_timestamp
from workflow_api.v1.usage_pb2 import CountCallsByKeyRequest


class CallsToday(NamedTuple):
    """How many calls a key made since 00:00 UTC, and how many of them were refused; with a bar for each hour."""

    calls: int = 0
    refused: int = 0
    bars: Markup = Markup("")


async def calls_today(services: Services, now: int, key_ids: Sequence[str]) -> Mapping[str, CallsToday]:
    """Returns the calls of up to 200 keys by key id; what is not there made none.

    Raises:
        Refusal: as `Services.call`.
    """
    if not key_ids:
        return {}
    began = now - now % DAY_MS
    request = CountCallsByKeyRequest(key_ids=key_ids, since=to_timestamp(began), until=to_timestamp(began + DAY_MS))
    hours: defaultdict[str, Counter[int]] = defaultdict(Counter)
    refused: Counter[str] = Counter()
    for count in (await services.call("UsageService/CountCallsByKey", request)).items:
        hours[count.key_id][(milliseconds_of(count.hour) - began) // HOUR_MS] += count.calls
        refused[count.key_id] += count.refused
    found: defaultdict[str, CallsToday] = defaultdict(CallsToday)
    for each, by_hour in hours.items():
        bars = spark_line([by_hour[hour] for hour in range(24)], f"{by_hour.total():,} calls today, by the hour")
        found[each] = CallsToday(by_hour.total(), refused[each], bars)
    return found
