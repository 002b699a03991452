"""A small chart of the calls of the last 24 hours."""

import datetime as dt
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp

from deploy.cli.output.terminal import in_status_colour
from deploy.client.backend import connected
from workflow_api.v1 import usage_pb2

_HOURS: Final = 24
_PAGE: Final = 10_000
_BARS: Final = " ▁▂▃▄▅▆▇█"
_ASCII_BARS: Final = " .:-=+*#@"
_FIRST_REFUSAL: Final = 400
_LABELS_EVERY: Final = 6
_WIDTH: Final = 3


def print_usage_chart(grpc: str, key_id: str | None) -> None:
    """Prints calls and refusals of each of the last 24 hours, of all keys or one; nothing where there was no call."""
    now = dt.datetime.now(dt.UTC).replace(minute=0, second=0, microsecond=0)
    hours = [now - dt.timedelta(hours=back) for back in reversed(range(_HOURS))]
    since = Timestamp()
    since.FromDatetime(hours[0])
    with connected(grpc) as backend:
        request = usage_pb2.ListUsageHoursRequest(key_id=key_id, since=since, page_size=_PAGE)
        counts = [item for page in backend.pages(backend.usage.ListUsageHours, request) for item in page.items]
    if counts:
        print("\n".join([*chart(hours, counts), ""]))


def chart(hours: Sequence[dt.datetime], counts: Iterable[usage_pb2.UsageHour]) -> list[str]:
    """Returns the lines of a chart: one bar an hour, each row to its own scale, with the hours below."""
    calls: Counter[int] = Counter()
    refused: Counter[int] = Counter()
    for count in counts:
        calls[count.hour.seconds] += count.calls
        if count.status >= _FIRST_REFUSAL:
            refused[count.hour.seconds] += count.calls
    at = [int(hour.timestamp()) for hour in hours]
    labels = "".join(f"{hour:%H:%M}".ljust(_LABELS_EVERY * _WIDTH) for hour in hours[::_LABELS_EVERY])
    most = max(calls.values())
    return [
        f"Calls in 24 hours: {calls.total():,}, at most {most:,} an hour; refused: {refused.total():,}",
        f"calls    {_bars([calls[each] for each in at])}",
        f"refused  {in_status_colour(_bars([refused[each] for each in at]), 'failed')}",
        f"UTC      {labels.rstrip()}",
    ]


def _bars(values: Sequence[int]) -> str:
    bars = _BARS if (sys.stdout.encoding or "utf-8").lower().startswith("utf") else _ASCII_BARS
    most = max(values) or 1
    # Every hour with a call shows, however few they are beside the most.
    heights = (-(-value * (len(bars) - 1) // most) for value in values)
    return "".join(bars[height] * (_WIDTH - 1) + " " for height in heights)
