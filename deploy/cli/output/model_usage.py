"""Output of the use of models by day: a table, or CSV."""

import csv
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from contract.times import milliseconds_of
from deploy.cli.output.printing import Form, Record, TableColumn
from workflow_api.v1.model_usage_pb2 import ModelUsageDay

MODEL_FIELDS: Final = (
    "day",
    "key_id",
    "workflow_id",
    "workflow_name",
    "model",
    "model_calls",
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "cost_microusd",
    "unpriced_calls",
)


def _cost(record: Record) -> str:
    known = f"{record['cost_microusd'] / 1_000_000:,.6f}"
    return known if not record["unpriced_calls"] else f"{known} + {record['unpriced_calls']} calls without price"


MODEL_COLUMNS: Final = (
    TableColumn("DAY", "day", rank=0),
    TableColumn("KEY ID", "key_id", rank=3),
    TableColumn("WORKFLOW", lambda record: record["workflow_name"] or record["workflow_id"], Form.TEXT, rank=1),
    TableColumn("MODEL", "model", Form.TEXT, rank=0),
    TableColumn("CALLS", "model_calls", Form.NUMBER, rank=2),
    TableColumn("INPUT", "input_tokens", Form.NUMBER, rank=0),
    TableColumn("OUTPUT", "output_tokens", Form.NUMBER, rank=0),
    TableColumn("CACHED", "cached_tokens", Form.NUMBER, rank=4),
    TableColumn("USD", _cost, Form.NUMBER, rank=0),
)


def model_day(item: ModelUsageDay) -> dict[str, Any]:
    """Converts one message to a flat record; the day is a UTC date."""
    day = datetime.fromtimestamp(milliseconds_of(item.day) / 1000, UTC).date().isoformat()
    numbers = {name: getattr(item.use, name) for name in MODEL_FIELDS[5:]}
    return {
        "day": day,
        "key_id": item.key_id or None,
        "workflow_id": item.workflow_id,
        "workflow_name": item.workflow_name if item.HasField("workflow_name") else None,
        "model": item.model,
        **numbers,
    }


def print_csv(items: Sequence[Record], fields: Sequence[str]) -> None:
    """Prints records as CSV with a header; text that a spreadsheet would read as a formula gets an apostrophe."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(fields)
    writer.writerows([_spreadsheet_safe(item[name]) for name in fields] for item in items)


def _spreadsheet_safe(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value[:1] in "=+-@\t\r" and value else value
