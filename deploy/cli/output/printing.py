"""Output of commands: JSON or tables, made from one record."""

import json
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from deploy.cli.output.records import RawJson, json_text
from deploy.cli.output.terminal import duration_text, in_status_colour, printable, relative_time, width_of

Record = Mapping[str, Any]

GAP: Final = 2
_LEAST_TEXT: Final = 14
_ELLIPSIS: Final = "…"


class Form(Enum):
    """Form in which the values of a column are shown."""

    EXACT = "whole, whatever the width: ids and short values"
    TEXT = "shortened in a table where there is little room"
    STATUS = "coloured by what it says"
    TIME = "relative to now, or exact in UTC"
    DURATION = "milliseconds, in words"
    NUMBER = "aligned to the right"


@dataclass(frozen=True)
class TableColumn:
    """One column of a table, or one row of a record's details.

    `value` is the name of a field, with dots for nested ones, or a function of the record. On a narrow terminal,
    columns are left out by `rank`, the greatest first; a column of rank 0 is always shown.
    """

    title: str
    value: str | Callable[[Record], object]
    form: Form = Form.EXACT
    rank: int = 1

    def cell(self, record: Record, *, utc: bool = False) -> str:
        """Returns the text of one cell; a dash for no value."""
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
    """Announces that a process serves: the record as JSON, or as lines; `metrics` is the address of its metrics."""
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


def print_table(items: Sequence[Record], columns: Sequence[TableColumn], *, none: str, utc: bool = False) -> None:
    """Prints one row for each item, or the sentence `none` when there is no item.

    In a pipe or a file a row is one line with every column whole, for `grep` and `cut`.
    """
    if not items:
        print(none)
        return
    cells = [
        [printable(column.title), *(printable(column.cell(item, utc=utc)) for item in items)] for column in columns
    ]
    rooms = [
        space_for(texts, shortens=column.form is Form.TEXT, rank=column.rank)
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


def print_details(record: Record, rows: Sequence[TableColumn], *, utc: bool = False) -> None:
    """Prints one record as rows of names and values; long text is wrapped to a terminal, and ids are not."""
    width = max(len(row.title) for row in rows) + 2
    available = width_of(sys.stdout)
    for row in rows:
        text = printable(row.cell(record, utc=utc), lines=True)
        for number, line in enumerate(_wrapped(text, None if available is None else available - width)):
            name = "" if number else row.title
            print(f"{name:{width}}{_styled(line, row.form, text)}".rstrip())


@dataclass(frozen=True, slots=True)
class ColumnSpace:
    """Space of one column: `width` of its longest cell, `least` width to which it can be shortened, and rank.

    Columns are left out by their `rank`, the greatest first; one of rank 0 is always shown.
    """

    width: int
    least: int
    rank: int


def space_for(cells: Sequence[str], *, shortens: bool, rank: int) -> ColumnSpace:
    """Returns the space that a column of these cells, its title among them, needs."""
    from rich.cells import cell_len

    width = max(map(cell_len, cells))
    return ColumnSpace(width, min(width, max(_LEAST_TEXT, cell_len(cells[0]))) if shortens else width, rank)


def fitted_widths(columns: Sequence[ColumnSpace], available: int | None) -> list[int | None]:
    """Returns the width of each column, None for one left out; without `available` all are shown whole."""
    if available is None:
        return [column.width for column in columns]
    shown = list(range(len(columns)))

    def needed(widths: Sequence[int]) -> int:
        return sum(widths) + GAP * (len(shown) - 1)

    while needed([columns[index].least for index in shown]) > available:
        rank, last = max((columns[index].rank, index) for index in shown)
        if rank == 0:
            break
        shown.remove(last)
    widths = {index: columns[index].least for index in shown}
    spare = max(0, available - needed(list(widths.values())))
    # The narrowest columns first, so that a long text takes only the space that others leave.
    for index in sorted(shown, key=lambda index: columns[index].width - widths[index]):
        more = min(spare, columns[index].width - widths[index])
        widths[index] += more
        spare -= more
    return [widths.get(index) for index in range(len(columns))]


def fitted(text: str, width: int, *, right: bool = False) -> str:
    """Returns a cell of exactly this width, shortened with an ellipsis or filled with blanks."""
    from rich.cells import cell_len, set_cell_size

    length = cell_len(text)
    if length > width:
        return set_cell_size(text, width - 1) + _ELLIPSIS
    fill = " " * (width - length)
    return fill + text if right else text + fill


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
        # JSON that is nested too deep, or has a number of thousands of digits.
        return raw.text
