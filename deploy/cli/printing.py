"""Output of commands: JSON or tables, both from the same record."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deploy.cli.raw_json import RawJson, json_text
from deploy.cli.terminal import printable

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Column:
    """One column of a table, or one row of a record's details.

    `value` is the name of a field, with dots for nested ones, or a function of the whole record.
    """

    title: str
    value: str | Callable[[Record], object]

    def cell(self, record: Record) -> str:
        """Returns the text of one cell; a dash where there is no value."""
        if callable(self.value):
            return _text(self.value(record))
        found: Any = record
        for name in self.value.split("."):
            found = found.get(name) if isinstance(found, Mapping) else None
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


def print_table(items: Sequence[Record], columns: Sequence[Column], *, none: str) -> None:
    """Prints one row for each item, or the sentence `none` when there is no item."""
    from rich.table import Table

    if not items:
        print(none)
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(_plain(column.title), overflow="fold")
    for item in items:
        table.add_row(*(_plain(column.cell(item)) for column in columns))
    _print_rich(table)


def print_details(record: Record, rows: Sequence[Column]) -> None:
    """Prints one record as rows of names and values."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for row in rows:
        table.add_row(_plain(row.title), _plain(row.cell(record)))
    _print_rich(table)


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


def _plain(text: str) -> Any:
    from rich.text import Text

    # Callers' texts may hold square brackets, which rich reads as markup, and control characters.
    return Text(printable(text, lines=True))


def _print_rich(table: Any) -> None:
    from rich.console import Console

    # In a pipe or a file lines are not folded: `grep` and `cut` see whole lines.
    console = Console(width=None if sys.stdout.isatty() else 10_000, highlight=False)
    with console.capture() as capture:
        console.print(table)
    for line in capture.get().splitlines():
        print(line.rstrip())
