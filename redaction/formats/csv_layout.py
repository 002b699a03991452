"""Detects the separator of a table in text, and the row that names its columns."""

import csv
import io
import re
from collections import Counter
from itertools import islice
from typing import Final, NamedTuple

from redaction.formats.nested_labels import label_score, may_be_labelled, may_state_label

_SEPARATORS: Final = (",", ";", "\t", "|")
# First line by which spreadsheets state the separator.
_STATED: Final = re.compile(r"""[\r\n]*\ufeff?"?sep=([^\r\n"])"?[ \t]*(?=[\r\n]|\Z)""", re.IGNORECASE)
# Most characters and rows that are examined.
_HEAD: Final = 65_536
_ROWS: Final = 24
_MOST_TITLES: Final = 10
# Fewest known column names in the header of a table, in a file without a table's extension.
_FEWEST_KNOWN: Final = 2


class CsvLayout(NamedTuple):
    """Layout of a table: separator, and number of title rows before the row that names the columns.

    `columns` is the number of columns of most rows, 0 if unknown; `quoted` is True if the first cell is in quotes.
    """

    separator: str
    titles: int = 0
    columns: int = 0
    quoted: bool = False


def csv_layout(text: str, separator: str | None = None) -> CsvLayout:
    """Returns the layout of a table by its first rows; `separator` is given if known.

    A line `sep=;` states the separator. Else the separator is the comma, semicolon, tab or bar that divides most rows
    into an equal number of cells, at least two; the first such row names the columns, and rows before it are titles.
    """
    head = text[:_HEAD]
    stated = _STATED.match(head)
    if stated is not None:
        separator, head = separator or stated[1], head[stated.end() :]
    found = [_layout_with(head, one) for one in ([separator] if separator else _SEPARATORS)]
    _, layout = max(found, key=lambda one: one[0])
    if not any(agreeing for (agreeing, _), _ in found):
        layout = CsvLayout(separator or separator_of(head))
    return layout if stated is None else layout._replace(titles=layout.titles + 1)


def table_layout(text: str) -> CsvLayout | None:
    """Returns the layout of a text that begins with a table, most of whose rows are of one length; else None.

    The first row of the table, or another near the top, has at least two known names of columns.
    """
    layout = csv_layout(text)
    if layout.columns < _FEWEST_KNOWN:
        return None
    reader = csv.reader(io.StringIO(text[:_HEAD], newline=""), delimiter=layout.separator)
    rows = [row for row in islice(reader, _ROWS) if any(map(str.strip, row))]
    known = sum(label_score(cell) > 0 for cell in rows[layout.titles]) if layout.titles < len(rows) else 0
    alike = sum(len(row) == layout.columns for row in rows)
    return layout if known >= _FEWEST_KNOWN and 2 <= alike > len(rows) // 2 else None


def separator_of(text: str) -> str:
    """Returns the most frequent of comma, semicolon, tab and bar in the first row."""
    line = text.lstrip("\r\n").partition("\n")[0]
    return max(_SEPARATORS, key=line.count)


def _layout_with(head: str, separator: str) -> tuple[tuple[int, int], CsvLayout]:
    """Returns the layout with a separator, and before it the numbers of agreeing rows and of columns, for ranking."""
    try:
        reader = csv.reader(io.StringIO(head, newline=""), delimiter=separator)
        rows = [row for row in islice(reader, _ROWS) if any(map(str.strip, row))]
    except csv.Error:
        return (0, 0), CsvLayout(separator)
    wide = Counter(len(row) for row in rows if len(row) > 1)
    if not wide:
        return (0, 0), CsvLayout(separator)
    columns, agreeing = max(wide.items(), key=lambda item: (item[1], item[0]))
    quoted = head.lstrip("\r\n\ufeff").startswith('"')
    return (agreeing, columns), CsvLayout(separator, _count_title_rows(rows, columns), columns, quoted)


def header_row(rows: list[list[str]]) -> int:
    """Returns the index of the row that names the columns of a table, whose rows are of one length; 0 for none."""
    return _count_title_rows(rows, max((sum(map(bool, row)) for row in rows), default=0)) if rows else 0


def _count_title_rows(rows: list[list[str]], columns: int) -> int:
    """Returns the number of rows before the row that names the columns."""
    filled = [sum(map(bool, map(str.strip, row))) for row in rows]
    sparse = 0
    while sparse < min(len(rows) - 1, _MOST_TITLES) and filled[sparse] <= columns // 2:
        sparse += 1
    # Titles are rows of few cells, and rows above a row that names columns better.
    named = [_header_score(row) if cells > 1 else 0.0 for row, cells in zip(rows[: sparse + 2], filled, strict=False)]
    best = max(named)
    return named.index(best) if best > named[sparse] else sparse


def _header_score(row: list[str]) -> float:
    """Returns a score of how well a row names columns, by known words."""
    # A table of fields and values has known names in cells that are no head.
    fields = 2.0 * (any(map(may_state_label, row)) and any(map(may_be_labelled, row)))
    return fields + sum(map(label_score, row))
