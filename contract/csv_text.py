"""Rows as CSV for spreadsheets, which take no cell for a formula."""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from typing import Final

# What a spreadsheet takes for the beginning of a formula, as OWASP lists it under CSV injection.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
_NUMBER: Final = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    """Returns rows as CSV; cells that a spreadsheet would calculate have a single quote before them, numbers none."""
    text = io.StringIO()
    csv.writer(text).writerows([_plain(str(value)) for value in row] for row in rows)
    return text.getvalue()


def _plain(value: str) -> str:
    return f"'{value}" if value.startswith(_FORMULA) and not _NUMBER.fullmatch(value) else value
