"""Preview of a file for people: the beginning of a text, or the first rows of a table."""

import csv
import io
import os
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final

from redaction.formats.csv_layout import csv_layout
from redaction.formats.encodings import legible, text_encoding
from redaction.formats.outcome import parser_failures_withheld, require_parquet

MOST_CHARS: Final = 65_536
MOST_TABLE_CHARS: Final = 1_000_000
"""Most characters of a table in text that are read for rows."""
MOST_ROWS: Final = 200
"""Most rows that a caller may request."""
MOST_COLUMNS: Final = 30
MOST_CELL_CHARS: Final = 300

PARQUET_MARK: Final = b"PAR1"
"""First bytes of a Parquet file."""
LONGEST_CELL: Final = 1_000_000
"""Most characters of a cell of separated values."""

_SEPARATED: Final = frozenset({".csv", ".tsv"})


@dataclass(frozen=True, slots=True)
class FilePreview:
    """Beginning of a file: `text`, or `columns` and `rows`; all are empty for other content.

    `total` is the number of all rows of a table; None where they are not counted.
    """

    text: str | None = None
    columns: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    cut: bool = False
    total: int | None = None

    @property
    def empty(self) -> bool:
        """Returns whether the preview has no readable content."""
        return self.text is None and not self.columns

    def as_dict(self) -> dict[str, Any]:
        """Returns the preview as JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, given: Any) -> "FilePreview | None":
        """Reads the JSON of `as_dict`; None for other values, or beyond the bounds."""
        match given:
            case {
                "text": str() | None as text,
                "columns": list(columns),
                "rows": list(rows),
                "cut": bool(cut),
                "total": int() | None as total,
            }:
                table = (columns, *rows)
                if len(text or "") > MOST_CHARS or len(rows) > MOST_ROWS:
                    return None
                if not all(isinstance(row, list) and len(row) <= MOST_COLUMNS for row in table):
                    return None
                if not all(isinstance(cell, str) and len(cell) <= MOST_CELL_CHARS for row in table for cell in row):
                    return None
                return cls(text, columns, rows, cut, total)
        return None


def preview_of(source: Path, name: str, rows: int, *, head: bool = False) -> FilePreview:
    """Returns the preview of a file, of a table the first `rows`, by its content and its name's extension.

    With `head` the source holds only the first bytes of the file, cut anywhere.

    Raises:
        WithheldError: the file is malformed.
        OSError: reading failed.
    """
    with source.open("rb") as file:
        if file.read(4) == PARQUET_MARK:
            require_parquet()
            return _parquet(source, rows)
    encoding = text_encoding(source, head=head)
    if encoding is None:
        return FilePreview()
    separated = is_separated(name)
    most = MOST_TABLE_CHARS if separated else MOST_CHARS
    text = ""
    for block in encoding.read(source, head=head):
        text += legible(block)
        if len(text) > most:
            break
    whole = len(text) <= most and not head
    if separated and text.strip():
        return _separated(text[:most], rows, whole=whole)
    return FilePreview(text[:MOST_CHARS], cut=not whole or len(text) > MOST_CHARS)


def is_separated(name: str) -> bool:
    """Returns whether a file's name is that of a table in text."""
    return os.path.splitext(name)[1].lower() in _SEPARATED  # noqa: PTH122 - a name, not a path


def _separated(text: str, most_rows: int, *, whole: bool) -> FilePreview:
    csv.field_size_limit(LONGEST_CELL)
    try:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=csv_layout(text).separator)
        rows = list(islice(reader, most_rows + 2))
    except csv.Error:
        return FilePreview(text[:MOST_CHARS], cut=not whole or len(text) > MOST_CHARS)
    if not whole and len(rows) <= most_rows + 1:
        # The last row may be incomplete.
        del rows[-1:]
    return cut_table(rows[0] if rows else [], rows[1:], most_rows, more=not whole)


def _parquet(source: Path, most_rows: int) -> FilePreview:
    # Imported late: pyarrow is large, and most runs leave no such file.
    import pyarrow.parquet as pq

    with parser_failures_withheld("parquet"), pq.ParquetFile(source, pre_buffer=False) as file:
        names = list(file.schema_arrow.names)
        wanted = names[: MOST_COLUMNS + 1]
        batch = next(file.iter_batches(batch_size=most_rows + 1, columns=wanted), None)
        # By index, because several columns may have one name.
        columns = [] if batch is None else [column.to_pylist() for column in batch.columns]
        rows = [["" if cell is None else str(cell) for cell in row] for row in zip(*columns, strict=True)]
        return cut_table(names, rows, most_rows, more=file.metadata.num_rows > len(rows))


def cut_table(columns: list[str], rows: list[list[str]], most_rows: int, *, more: bool) -> FilePreview:
    """Returns the first rows and columns of a table, within the bounds of a preview; `more` if it has more rows."""
    shown = [row[:MOST_COLUMNS] for row in rows[:most_rows]]
    cut = (
        more
        or len(rows) > most_rows
        or any(len(row) > MOST_COLUMNS for row in (columns, *rows))
        or any(len(cell) > MOST_CELL_CHARS for row in (columns[:MOST_COLUMNS], *shown) for cell in row)
    )
    return FilePreview(
        columns=[name[:MOST_CELL_CHARS] for name in columns[:MOST_COLUMNS]],
        rows=[[cell[:MOST_CELL_CHARS] for cell in row] for row in shown],
        cut=cut,
    )
