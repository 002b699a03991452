"""Pages of a table for people: rows of separated values, of a list in JSON, or of a Parquet file."""

import csv
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any, Final

from redaction.formats.csv_layout import csv_layout
from redaction.formats.encodings import Encoding, legible, text_encoding
from redaction.formats.outcome import parser_failures_withheld, require_parquet
from redaction.formats.preview import (
    LONGEST_CELL,
    MOST_COLUMNS,
    PARQUET_MARK,
    FilePreview,
    cut_table,
    is_separated,
)

LARGEST_LIST: Final = 5_000_000
"""Bytes of the largest JSON file that is read as a table, because all of it is read at once."""

_LISTS: Final = frozenset({".json", ".jsonl", ".ndjson"})


def table_page(source: Path, name: str, first: int, rows: int) -> FilePreview | None:
    """Returns up to `rows` rows of a table from row `first` on, with the number of all; None for no table.

    Raises:
        WithheldError: the file is malformed.
        OSError: reading failed.
    """
    with source.open("rb") as file:
        if file.read(len(PARQUET_MARK)) == PARQUET_MARK:
            require_parquet()
            return _parquet(source, first, rows)
    encoding = text_encoding(source)
    if encoding is None:
        return None
    if is_separated(name):
        return _separated(source, encoding, first, rows)
    extension = os.path.splitext(name)[1].lower()  # noqa: PTH122 - a name, not a path
    if extension in _LISTS and source.stat().st_size <= LARGEST_LIST:
        return _list("".join(map(legible, encoding.read(source))), first, rows, lines=extension != ".json")
    return None


def _page(columns: list[str], rows: list[list[str]], total: int) -> FilePreview:
    return replace(cut_table(columns, rows, len(rows), more=False), total=total)


def _separated(source: Path, encoding: Encoding, first: int, count: int) -> FilePreview | None:
    csv.field_size_limit(LONGEST_CELL)
    start = next(map(legible, encoding.read(source)), "")
    if not start.strip():
        return None
    reader = csv.reader(_lines(source, encoding), delimiter=csv_layout(start).separator)
    try:
        columns = next(reader, [])
        skipped = sum(1 for _ in islice(reader, first))
        rows = list(islice(reader, count))
        total = skipped + len(rows) + sum(1 for _ in reader)
    except csv.Error:
        return None
    return _page(columns, rows, total)


def _lines(source: Path, encoding: Encoding) -> Iterator[str]:
    """Yields lines with their ends; the reader of separated values joins lines of quoted cells."""
    begun = ""
    for block in encoding.read(source):
        *lines, begun = (begun + legible(block)).split("\n")
        for line in lines:
            yield f"{line}\n"
    if begun:
        yield begun


def _list(text: str, first: int, count: int, *, lines: bool) -> FilePreview | None:
    items: Any
    try:
        if lines:
            items = [json.loads(line, parse_float=Decimal) for line in text.split("\n") if line.strip()]
        else:
            items = json.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError):
        return None
    if not isinstance(items, list) or not items:
        return None
    if all(isinstance(item, dict) for item in items):
        names = list(islice(dict.fromkeys(name for item in items for name in item), MOST_COLUMNS + 1))
        rows = [[_cell(item[name]) if name in item else "" for name in names] for item in items[first : first + count]]
        return _page(names or [""], rows, len(items))
    if all(isinstance(item, list) for item in items):
        width = min(max(map(len, items)), MOST_COLUMNS + 1)
        names = [str(number) for number in range(1, width + 1)]
        shown = (item[:width] for item in items[first : first + count])
        rows = [[*map(_cell, item)] + [""] * (width - len(item)) for item in shown]
        return _page(names or [""], rows, len(items))
    return None


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str | Decimal):
        return str(value)
    # Cells beyond the longest are cut; the number of a cell within another value loses its spelling.
    return json.dumps(value, ensure_ascii=False, default=float)


def _parquet(source: Path, first: int, count: int) -> FilePreview:
    # Imported late: pyarrow is large, and most runs leave no such file.
    import pyarrow.parquet as pq

    with parser_failures_withheld("parquet"), pq.ParquetFile(source, pre_buffer=False) as file:
        names = list(file.schema_arrow.names)
        rows: list[list[str]] = []
        skip = first
        for group in range(file.num_row_groups):
            size = file.metadata.row_group(group).num_rows
            if skip >= size:
                skip -= size
                continue
            for batch in file.iter_batches(batch_size=1_000, row_groups=[group], columns=names[: MOST_COLUMNS + 1]):
                begin, skip = min(skip, batch.num_rows), max(0, skip - batch.num_rows)
                # By index, because several columns may have one name.
                columns = [column.slice(begin, count - len(rows)).to_pylist() for column in batch.columns]
                rows += (["" if cell is None else str(cell) for cell in row] for row in zip(*columns, strict=True))
                if len(rows) >= count:
                    return _page(names, rows, file.metadata.num_rows)
        return _page(names, rows, file.metadata.num_rows)
