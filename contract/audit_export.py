"""Audit records as the files that they are exported to: CSV, and JSON lines."""

import json
from collections.abc import Iterator
from datetime import UTC
from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp

from contract.csv_text import csv_text
from workflow_api.v1.audit_pb2 import AuditRecord, ExportAuditRecordsResponse

CSV: Final = "csv"
JSON_LINES: Final = "jsonl"
FORMATS: Final = (CSV, JSON_LINES)

_COLUMNS: Final = ("at", "actor", "action", "target", "details")


def head_of(form: str) -> str:
    """Returns what a file of a format begins with."""
    return csv_text([_COLUMNS]) if form == CSV else ""


def lines_of(part: ExportAuditRecordsResponse, form: str) -> str:
    """Returns the lines of a part of an export; the last says so where there are more records."""
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
