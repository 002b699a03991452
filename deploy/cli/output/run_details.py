"""Output of one run: its details, its steps, its result."""

import json
from collections.abc import Callable, Sequence
from typing import Final

from deploy.cli.output.printing import Form, Record, TableColumn, print_details
from deploy.cli.output.records import RawJson, record_of
from deploy.cli.output.terminal import printable
from workflow_api.v1 import runs_pb2

_LONGEST_LINE: Final = 100


def print_run(record: Record, rows: Sequence[TableColumn], *, utc: bool = False) -> None:
    """Prints a run's details without the rows that have no value."""
    print_details(record, [row for row in rows if row.cell(record) != "-"], utc=utc)


def _error(record: Record) -> object:
    error = record.get("error")
    return error and f"{error['code']}: {error['message']}"


def run_record(run: runs_pb2.Run) -> Record:
    """Returns a run as the API's record, with its starter, which the API does not show."""
    return {**record_of(run), "started_by": run.started_by}


def starter(record: Record) -> object:
    """Returns the starter of a run: a key with its name and id, or a person."""
    name, key_id = record["started_by"], record["key_id"]
    return f"{name or 'deleted'} ({key_id})" if key_id else name


def _items(items: Record | None) -> str | None:
    if items is None:
        return None
    failed = f", {items['failed']} failed" if items["failed"] else ""
    return f"{items['completed']}/{items['total']}{failed}"


def _json(field: str) -> Callable[[Record], object]:
    """Returns a function that reads a field of JSON: on one line if it is short, else indented."""

    def read(record: Record) -> object:
        value = record[field]
        if not isinstance(value, RawJson) or len(value.text) <= _LONGEST_LINE:
            return value
        try:
            return json.dumps(value.value(), indent=2, ensure_ascii=False)
        except (ValueError, RecursionError):
            return value

    return read


def summary_text(record: Record) -> str:
    """Returns the run's summary for a terminal."""
    return printable(record["summary_markdown"] or "", lines=True).rstrip("\n")


RUN_DETAILS: Final = (
    TableColumn("run_id", "run_id"),
    TableColumn("workflow", lambda record: f"{record['workflow_name']} ({record['workflow_id']})"),
    TableColumn("version", "version"),
    TableColumn("status", "status", Form.STATUS),
    TableColumn("error", _error),
    TableColumn("warnings", lambda record: "\n".join(record["warnings"])),
    TableColumn("created_at", "created_at", Form.TIME),
    TableColumn("started_at", "started_at", Form.TIME),
    TableColumn("finished_at", "finished_at", Form.TIME),
    TableColumn("duration", "duration_ms", Form.DURATION),
    TableColumn("triggered_by", "triggered_by"),
    TableColumn("started_by", starter),
    TableColumn("resumed_from", "resumed_from"),
    TableColumn("resumed_by", "resumed_by"),
    TableColumn("parent_run_id", "parent_run_id"),
    TableColumn("client_reference", "client_reference"),
    TableColumn("labels", "labels"),
    TableColumn("parameters", _json("parameters")),
    TableColumn("result", _json("result")),
    TableColumn("result_error", "result_error.message"),
    TableColumn("outputs", "counts.outputs"),
    TableColumn("data_purged_at", "data_purged_at", Form.TIME),
)

RUN_COLUMNS: Final = (
    TableColumn("RUN ID", "run_id", rank=0),
    TableColumn("WORKFLOW", "workflow_name", Form.TEXT, rank=2),
    TableColumn("VERSION", "version", Form.NUMBER, rank=6),
    TableColumn("STATUS", "status", Form.STATUS, rank=0),
    TableColumn("CREATED", "created_at", Form.TIME, rank=1),
    TableColumn("DURATION", "duration_ms", Form.DURATION, rank=3),
    TableColumn("REFERENCE", "client_reference", Form.TEXT, rank=4),
    TableColumn("WARNINGS", lambda record: len(record["warnings"]) or None, Form.NUMBER, rank=5),
)

CHILD_COLUMNS: Final = (
    TableColumn("STEP", "step", rank=0),
    TableColumn("ITEM", "item_index", Form.NUMBER, rank=3),
    TableColumn("CHILD", "run.run_id", rank=0),
    TableColumn("WORKFLOW", "run.workflow_name", Form.TEXT, rank=2),
    TableColumn("STATUS", "run.status", Form.STATUS, rank=0),
    TableColumn("DURATION", "run.duration_ms", Form.DURATION, rank=1),
)

STEP_COLUMNS: Final = (
    TableColumn("STEP", "step", rank=0),
    TableColumn("KIND", "kind", rank=4),
    TableColumn("STATUS", "status", Form.STATUS, rank=0),
    TableColumn("NEEDS", "needs", Form.TEXT, rank=3),
    TableColumn("ATTEMPT", "attempt", Form.NUMBER, rank=5),
    TableColumn("DURATION", "duration_ms", Form.DURATION, rank=2),
    TableColumn("ITEMS", lambda record: _items(record.get("items")), Form.TEXT, rank=4),
    TableColumn("REUSED FROM", "reused_from", rank=6),
    TableColumn("ERROR", "error.message", Form.TEXT, rank=1),
)
