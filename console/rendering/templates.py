"""Renders templates to HTML: escapes values, marks invisible characters, and raises for undefined names."""

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import jinja2
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from jinja2.runtime import Context
from markupsafe import Markup, escape

from console.http.static_files import StaticFiles
from console.rendering import formatting, times
from console.rendering.audit_sentences import person_of
from console.rendering.matching import resembles
from console.rendering.text import breakable, marked, marked_value, short, short_id, verbatim, visible, visible_value
from console.rendering.times import machine_text, text_in
from contract.times import milliseconds_of
from workflow_api.v1.users_pb2 import Preferences

_NOTHING: Final = "\N{EN DASH}"
_ROW: Final = re.compile(r"<tr\b.*?(?=<tr\b|\Z)", re.DOTALL)
_CELL: Final = re.compile(r"<t[dh]\b[^>]*>(.*?)(?=<t[dh]\b|\Z)", re.DOTALL)
_CELL_END: Final = re.compile(r"(?:</t[dhr]>\s*)+\Z")
_NUMBER: Final = re.compile(r"\N{EN DASH}|[0-9][0-9,.]*(?: (?:%|[A-Za-z]{1,3})(?: [0-9]+ [a-z]{1,3})?)?")
"""A number, also with a unit or as a duration such as `4 min 5 s`, or the dash in place of one."""

_FIRST: Final = ("page.", "macros.", "sign_in.", "overview/", "runs/")
"""Beginnings of the names of templates that a person meets first."""

_ROW_TAG: Final = re.compile(r"<(tr|td|th)\b")


class Rendering:
    """The template environment of the console."""

    def __init__(self, files: StaticFiles, api_url: str = "") -> None:
        self.environment = jinja2.Environment(
            loader=jinja2.PackageLoader("console"),
            autoescape=True,
            finalize=marked_value,
            undefined=jinja2.StrictUndefined,
            auto_reload=False,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.environment.filters |= {
            "time": time_of,
            "number": number,
            "day": day_of,
            "span": span,
            "labelled": labelled,
            "breakable": breakable,
            "number_columns": number_columns,
            "short": short,
            "person": person_of,
            "short_id": short_id,
            "size": formatting.size,
            "visible": visible,
            "visible_value": visible_value,
            "verbatim": verbatim,
        }
        self.environment.tests |= {"containing": _contains, "resembling": resembles, "starting": str.startswith}
        self.environment.globals |= {
            "static": files.url_of,
            "has_static": files.has,
            "api_url": api_url,
            "preferences": Preferences(),
        }

    async def prepare(self) -> None:
        """Compiles the templates, so that the first visit of a page need not; a visit meanwhile compiles its own."""
        names = self.environment.list_templates()
        for name in sorted(names, key=lambda name: not name.startswith(_FIRST)):
            await asyncio.to_thread(self.environment.get_template, name)

    def page(self, template: str, context: Mapping[str, Any]) -> str:
        """Returns the page that a template renders from a context."""
        return self.environment.get_template(template).render(context)


def _contains(text: str, part: str) -> bool:
    """Returns whether a text contains another, ignoring case."""
    return part.lower() in text.lower()


@jinja2.pass_context
def time_of(
    context: Context, time: int | Timestamp | datetime | None, *, exact: bool = False, countdown: bool = False
) -> Markup | str:
    """Returns a `<time>` element in the zone of the page's context; integers are milliseconds since the epoch.

    The page's script replaces the text by the time until now, such as "3 minutes ago", unless `exact` or the person
    prefers exact times; the exact time is the tooltip. A countdown shows hours, minutes and seconds. None and 0 mean no
    time, and give a dash.
    """
    if isinstance(time, datetime):
        time = round(time.timestamp() * 1000)
    elif isinstance(time, Timestamp):
        time = milliseconds_of(time)
    if not time:
        return _NOTHING
    shown = text_in(context.get("zone", UTC), time)
    exact = exact or (context["preferences"].exact_times and not countdown)
    tooltip = "" if exact else Markup(' title="{}"').format(shown)
    kind = Markup(" data-countdown") if countdown else ""
    return Markup('<time datetime="{}"{}{}>{}</time>').format(machine_text(time), tooltip, kind, shown)


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


def labelled(rows: str, heads: Sequence[str]) -> Markup:
    """Returns the rows of a table, each cell with the head of its column as `data-label`.

    On a narrow screen a row is a card without heads. Values in `rows` must be escaped: `<td` always counts as a tag.
    """
    labels: Iterator[str] = iter(())

    def label(tag: re.Match[str]) -> str:
        nonlocal labels
        if tag[1] == "tr":
            labels = iter(heads)
            return tag[0]
        head = next(labels, "")
        return f'{tag[0]} data-label="{escape(marked(head))}"' if head else tag[0]

    return Markup(_ROW_TAG.sub(label, rows))  # noqa: S704 - the rows were rendered with escaping


def number_columns(rows: str) -> str:
    """Returns the columns of a table that have numbers alone, counted from 1, as `3 5`; such columns end at the right.

    A column of dashes and empty cells is none.
    """
    found: dict[int, bool] = {}
    for row in _ROW.findall(rows):
        for place, cell in enumerate(_CELL.findall(row), 1):
            text = _CELL_END.sub("", cell).strip()
            if text and text != _NOTHING:
                found[place] = found.get(place, True) and _NUMBER.fullmatch(text) is not None
    return " ".join(str(place) for place, numbers in sorted(found.items()) if numbers)
