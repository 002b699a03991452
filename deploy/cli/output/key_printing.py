"""Output of keys, issued credentials and usage: tables, details of one key, and a chart of the last 24 hours."""

import datetime as dt
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

from google.protobuf.timestamp_pb2 import Timestamp

from deploy.cli.output.printing import Form, Record, TableColumn, print_details, print_json
from deploy.cli.output.records import record_of
from deploy.cli.output.terminal import in_status_colour
from deploy.client.backend import connected
from workflow_api.v1 import keys_pb2, usage_pb2


def _workflows(record: Record) -> object:
    access = record["workflow_access"]
    return access["workflow_ids"] if access["mode"] == "explicit" else "all active"


def _hours(record: Record) -> object:
    window = record["allowed_hours"]
    return window and f"{window['start_hour']}-{window['end_hour']} UTC"


def _of_limit(record: Record, used: str, limit: str) -> str:
    in_words = _usd if used.endswith("microusd") else "{:,}".format
    text: str = in_words(record[used])
    return text if record[limit] is None else f"{text} of {in_words(record[limit])}"


def _usd(microusd: int) -> str:
    return f"{microusd / 1_000_000:,.6f} USD"


ISSUED: Final = ("key", "external_id")

KEY_COLUMNS: Final = (
    TableColumn("KEY ID", "key_id", rank=0),
    TableColumn("NAME", "name", Form.TEXT, rank=1),
    TableColumn("STATE", "state", Form.STATUS, rank=0),
    TableColumn("SCOPES", "scopes", Form.TEXT, rank=5),
    TableColumn("WORKFLOWS", _workflows, Form.TEXT, rank=6),
    TableColumn(
        "RUNS TODAY",
        lambda record: f"{record['quota_used_today']}/{record['daily_run_quota']}",
        Form.NUMBER,
        rank=3,
    ),
    TableColumn(
        "IN FLIGHT",
        lambda record: f"{record['active_runs']}/{record['max_concurrent_runs']}",
        Form.NUMBER,
        rank=4,
    ),
    TableColumn("EXPIRES", "expires_at", Form.TIME, rank=2),
)

KEY_DETAILS: Final = (
    TableColumn("key_id", "key_id"),
    TableColumn("name", "name"),
    TableColumn("description", "description"),
    TableColumn("state", "state", Form.STATUS),
    TableColumn("deployment_id", "deployment_id"),
    TableColumn("scopes", "scopes"),
    TableColumn("workflows", _workflows),
    TableColumn("source_allow_list", lambda record: record["source_allow_list"] or "any address"),
    TableColumn("allowed_hours", lambda record: _hours(record) or "any hour"),
    TableColumn("rate_limit_rpm", "rate_limit_rpm"),
    TableColumn("runs today", lambda record: f"{record['quota_used_today']} of {record['daily_run_quota']}"),
    TableColumn("runs in flight", lambda record: f"{record['active_runs']} of {record['max_concurrent_runs']}"),
    TableColumn("tokens today", lambda record: _of_limit(record, "tokens_today", "daily_tokens")),
    TableColumn("cost today", lambda record: _of_limit(record, "cost_today_microusd", "daily_cost_microusd")),
    TableColumn("priority", "priority"),
    TableColumn("created_at", "created_at", Form.TIME),
    TableColumn("expires_at", "expires_at", Form.TIME),
    TableColumn("rotating_until", "rotating_until", Form.TIME),
    TableColumn("revoked_at", "revoked_at", Form.TIME),
)

USAGE_COLUMNS: Final = (
    TableColumn("AT", "at", Form.TIME, rank=1),
    TableColumn("KEY ID", "key_id", rank=3),
    TableColumn("METHOD", "method", rank=4),
    TableColumn("ROUTE", "route", Form.TEXT, rank=0),
    TableColumn("STATUS", "status", rank=0),
    TableColumn("REASON", "reason", rank=2),
    TableColumn("CALLS", "calls", rank=5),
    TableColumn("ADDRESS", "address", rank=5),
    TableColumn("REQUEST ID", "request_id", rank=6),
)

HOUR_COLUMNS: Final = (
    TableColumn("HOUR", "hour", Form.TIME, rank=0),
    TableColumn("KEY ID", "key_id", rank=1),
    TableColumn("METHOD", "method", rank=2),
    TableColumn("ROUTE", "route", Form.TEXT, rank=0),
    TableColumn("STATUS", "status", rank=0),
    TableColumn("CALLS", "calls", Form.NUMBER, rank=0),
)


def show_key(key: keys_pb2.KeyRecord, *, as_json: bool, utc: bool = False) -> None:
    """Prints one key."""
    record = record_of(key)
    if as_json:
        print_json(record)
    else:
        print_details(record, KEY_DETAILS, utc=utc)


def show_credentials(credentials: keys_pb2.KeyCredentials, *, as_json: bool) -> None:
    """Prints issued credentials and their key."""
    record = credentials_record(credentials)
    if as_json:
        print_json(record)
        return
    print_details(record, [*(TableColumn(name, name) for name in ISSUED if name in record), *KEY_DETAILS])
    print("\nWrite down what was issued: it is not kept and cannot be shown again.")


def credentials_record(credentials: keys_pb2.KeyCredentials) -> dict[str, Any]:
    """Returns the key's record with the issued credentials as `key` and `external_id`."""
    record = record_of(credentials)
    issued = {"key": record.pop("key_value"), "external_id": record.pop("external_id")}
    return {
        "key_id": record.pop("key_id"),
        **{name: value for name, value in issued.items() if value is not None},
        **record,
    }


_HOURS: Final = 24
_PAGE: Final = 10_000
_BARS: Final = " ▁▂▃▄▅▆▇█"
_ASCII_BARS: Final = " .:-=+*#@"
_FIRST_REFUSAL: Final = 400
_LABELS_EVERY: Final = 6
_WIDTH: Final = 3


def print_usage_chart(grpc: str, key_id: str | None) -> None:
    """Prints calls and refusals of each of the last 24 hours, of all keys or one; nothing if there was no call."""
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
    """Returns the lines of a chart: a bar for each hour, each row scaled by itself, with the hours below."""
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
    # Every hour with a call has a visible bar, however few calls it has.
    heights = (-(-value * (len(bars) - 1) // most) for value in values)
    return "".join(bars[height] * (_WIDTH - 1) + " " for height in heights)
