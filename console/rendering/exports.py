"""Exports: rows as CSV without cells that spreadsheets read as formulas; audit records as CSV or JSON lines."""

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC
from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp

from workflow_api.v1.audit_pb2 import AuditRecord, ExportAuditRecordsResponse

# Characters that begin a formula in spreadsheets, by OWASP's list for CSV injection.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
_NUMBER: Final = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    """Returns rows as CSV, with a single quote before cells that a spreadsheet would calculate, except numbers."""
    text = io.StringIO()
    csv.writer(text).writerows([_plain(str(value)) for value in row] for row in rows)
    return text.getvalue()


def _plain(value: str) -> str:
    return f"'{value}" if value.startswith(_FORMULA) and not _NUMBER.fullmatch(value) else value


CSV: Final = "csv"
JSON_LINES: Final = "jsonl"
FORMATS: Final = (CSV, JSON_LINES)

_COLUMNS: Final = ("at", "actor", "action", "target", "details")


def head_of(form: str) -> str:
    """Returns the head of an export file: the header row of CSV, empty for JSON lines."""
    return csv_text([_COLUMNS]) if form == CSV else ""


def lines_of(part: ExportAuditRecordsResponse, form: str) -> str:
    """Returns the lines of a part of an export; a last line reports records beyond the export's bound."""
    rows = [*map(_values, part.items), *_more(part)]
    if form == CSV:
        return csv_text(rows)
    objects = (dict(zip(_COLUMNS, row, strict=True)) for row in rows)
    return "".join(json.dumps({**each, "details": json.loads(each["details"])}) + "\n" for each in objects)


def _values(record: AuditRecord) -> tuple[str, ...]:
    return _text(record.at), record.actor, record.action, record.target, record.details or "{}"


def _more(part: ExportAuditRecordsResponse) -> Iterator[tuple[str, ...]]:
    if part.HasField("more_until"):
        at = _text(part.more_until)
        yield at, "", "audit.export_cut", "", json.dumps({"note": f"There are more, of {at} and before."})


def _text(at: Timestamp) -> str:
    return at.ToDatetime(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
