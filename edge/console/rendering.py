"""Makes HTML of templates: everything shown is escaped, and a name that is not there is a defect, not a blank."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import jinja2
from google.protobuf.timestamp_pb2 import Timestamp
from markupsafe import Markup

from edge.codec.timestamps import to_milliseconds
from edge.console.static_files import StaticFiles

_NOTHING: Final = "\N{EN DASH}"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Rendering:
    """The templates of the console."""

    def __init__(self, files: StaticFiles) -> None:
        self._environment = jinja2.Environment(
            loader=jinja2.PackageLoader("edge.console"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            auto_reload=False,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters |= {"time": time_of, "number": number}
        self._environment.globals["static"] = files.address_of

    def page(self, template: str, shown: Mapping[str, Any]) -> str:
        """Return the page that a template makes of what it is told."""
        return self._environment.get_template(template).render(shown)


def time_of(moment: int | Timestamp | datetime | None) -> Markup | str:
    """Return a time in UTC for a person, and in it one for machines; integers are milliseconds since the epoch.

    What never was, None or 0, is a dash.
    """
    if isinstance(moment, Timestamp):
        moment = to_milliseconds(moment)
    if not moment:
        return _NOTHING
    at = _EPOCH + timedelta(milliseconds=moment) if isinstance(moment, int) else moment.astimezone(UTC)
    machine = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return Markup('<time datetime="{}">{}</time>').format(machine, at.strftime("%Y-%m-%d %H:%M:%S UTC"))


def number(value: float | None) -> str:
    """Return a number with its thousands apart, and at most two decimals."""
    if value is None:
        return _NOTHING
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}".rstrip("0").rstrip(".")
