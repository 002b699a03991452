"""Output of commands: JSON or tables, both from the same record."""

import json
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from deploy.cli.output.raw_json import RawJson, json_text
from deploy.cli.output.terminal import in_status_colour, printable, width_of
from deploy.cli.output.times import duration_text, relative_time

Record = Mapping[str, Any]


class Form(Enum):
    """How the values of a column are shown."""

    EXACT = "whole, whatever the width: ids and short values"
    TEXT = "shortened in a table where there is little room"
    STATUS = "coloured by what it says"
    TIME = "relative to now, or exact in UTC"
    DURATION = "milliseconds, in words"
    NUMBER = "aligned to the right"


@dataclass(frozen=True)
class Column:
    """One column of a table, or one row of a record's details.

    `value` is the name of a field, with dots for nested ones, or a function of the record. Where a terminal is too
    narrow, columns are left out by `rank`, the greatest first; one of rank 0 is always shown.
    """

    title: str
    value: str | Callable[[Record], object]
    form: Form = Form.EXACT
    rank: int = 1

    def cell(self, record: Record, *, utc: bool = False) -> str:
        """Returns the text of one cell; a dash where there is no value."""
        if callable(self.value):
            found: Any = self.value(record)
        else:
            found = record
            for name in self.value.split("."):
                found = found.get(name) if isinstance(found, Mapping) else None
        if self.form is Form.TIME and isinstance(found, str) and found and not utc:
            return relative_time(found)
        if self.form is Form.DURATION and isinstance(found, int | float):
            return duration_text(found)
        return _text(found)


def print_json(value: object) -> None:
    """Prints one JSON document."""
    print(json_text(value, indented=True, encoding=sys.stdout.encoding or "utf-8"), flush=True)


def print_json_line(value: object) -> None:
    """Prints one JSON document on one line, for output of many documents."""
    print(json_text(value, indented=False, encoding=sys.stdout.encoding or "utf-8"), flush=True)


def print_ready(*lines: str, record: Mapping[str, str], metrics: str | None, as_json: bool) -> None:
    """Prints that a process serves: the record as JSON, or the lines; `metrics` is the address of its metrics."""
    if as_json:
        print_json_line({**record, "metrics": metrics} if metrics else record)
    else:
        print("\n".join([*lines, f"Metrics: {metrics}"] if metrics else lines), flush=True)


def print_line(text: str) -> None:
    """Prints one line with control characters escaped."""
    print(printable(text), flush=True)


def print_lines(text: str) -> None:
    """Prints lines with control characters escaped."""
    print(printable(text, lines=True), flush=True)


def print_table(items: Sequence[Record], columns: Sequence[Column], *, none: str, utc: bool = False) -> None:
    """Prints one row for each item, or the sentence `none` when there is no item.

    In a pipe or a file a row is one line with every column whole, for `grep` and `cut`.
    """
    if not items:
        print(none)
        return
    from deploy.cli.output.table_layout import GAP, fitted, fitted_widths, room_for

    cells = [
        [printable(column.title), *(printable(column.cell(item, utc=utc)) for item in items)] for column in columns
    ]
    rooms = [
        room_for(texts, shortens=column.form is Form.TEXT, rank=column.rank)
        for texts, column in zip(cells, columns, strict=True)
    ]
    widths = fitted_widths(rooms, width_of(sys.stdout))
    for row in range(len(items) + 1):
        shown = [
            _styled(fitted(texts[row], width, right=column.form is Form.NUMBER), column.form, texts[row], title=not row)
            for texts, column, width in zip(cells, columns, widths, strict=True)
            if width is not None
        ]
        print((" " * GAP).join(shown).rstrip())


def print_details(record: Record, rows: Sequence[Column], *, utc: bool = False) -> None:
    """Prints one record as rows of names and values; long text is wrapped to a terminal, and ids are not."""
    width = max(len(row.title) for row in rows) + 2
    available = width_of(sys.stdout)
    for row in rows:
        text = printable(row.cell(record, utc=utc), lines=True)
        for number, line in enumerate(_wrapped(text, None if available is None else available - width)):
            name = "" if number else row.title
            print(f"{name:{width}}{_styled(line, row.form, text)}".rstrip())


def _wrapped(text: str, width: int | None) -> list[str]:
    lines = text.split("\n")
    if width is None or width < 1:
        return lines
    return [part for line in lines for part in (_wrapped_line(line, width) or [line])]


def _wrapped_line(line: str, width: int) -> list[str]:
    indent = line[: len(line) - len(line.lstrip(" "))]
    return textwrap.wrap(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _styled(shown: str, form: Form, text: str, *, title: bool = False) -> str:
    return in_status_colour(shown, text) if form is Form.STATUS and not title else shown


def _text(value: object) -> str:
    if value in (None, "", [], {}):
        return "-"
    match value:
        case RawJson():
            return _readable(value)
        case bool():
            return "yes" if value else "no"
        case str():
            return value
        case list() if all(isinstance(member, str) for member in value):
            return ", ".join(value)
        case dict() | list():
            return json.dumps(value, ensure_ascii=False)
        case _:
            return str(value)


def _readable(raw: RawJson) -> str:
    try:
        return _text(raw.value())
    except (ValueError, RecursionError):
        # Nested too deep, or a number of thousands of digits.
        return raw.text
