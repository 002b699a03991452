"""Renders templates to HTML: all values are escaped, and an undefined name raises an error."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import jinja2
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from markupsafe import Markup

from contract.times import milliseconds_of
from edge.console import formatting, times
from edge.console.static_files import StaticFiles

_NOTHING: Final = "\N{EN DASH}"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Rendering:
    """The template environment of the console."""

    def __init__(self, files: StaticFiles) -> None:
        self._environment = jinja2.Environment(
            loader=jinja2.PackageLoader("edge.console"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            auto_reload=False,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters |= {"time": time_of, "number": number, "day": day_of, "span": span}
        self._environment.globals["static"] = files.url_of

    def page(self, template: str, context: Mapping[str, Any]) -> str:
        """Returns the page that a template renders from a context."""
        return self._environment.get_template(template).render(context)


def time_of(time: int | Timestamp | datetime | None) -> Markup | str:
    """Returns a `<time>` element in UTC; integers are milliseconds since the epoch.

    None and 0 mean no time, and give a dash.
    """
    if isinstance(time, Timestamp):
        time = milliseconds_of(time)
    if not time:
        return _NOTHING
    at = _EPOCH + timedelta(milliseconds=time) if isinstance(time, int) else time.astimezone(UTC)
    machine = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return Markup('<time datetime="{}">{}</time>').format(machine, at.strftime("%Y-%m-%d %H:%M:%S UTC"))


def day_of(time: Timestamp) -> str:
    """Returns the UTC day of a time, as `2026-09-24`."""
    return times.day(milliseconds_of(time))


def span(duration: Duration) -> str:
    """Returns a duration in words."""
    return formatting.duration(milliseconds_of(duration))


def number(value: float | None) -> str:
    """Returns a number with thousands separators and at most two decimals."""
    if value is None:
        return _NOTHING
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}".rstrip("0").rstrip(".")
