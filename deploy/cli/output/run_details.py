"""One run as commands show it: its details, its steps, its result."""

import json
from collections.abc import Callable, Sequence
from typing import Final

from deploy.cli.output.printing import Column, Form, Record, print_details
from deploy.cli.output.raw_json import RawJson
from deploy.cli.output.terminal import printable

_LONGEST_LINE: Final = 100


def print_run(record: Record, rows: Sequence[Column], *, utc: bool = False) -> None:
    """Prints a run's details without the rows that have no value."""
    print_details(record, [row for row in rows if row.cell(record) != "-"], utc=utc)


def _error(record: Record) -> object:
    error = record.get("error")
    return error and f"{error['code']}: {error['message']}"


def _json(field: str) -> Callable[[Record], object]:
    """Returns what reads a field of JSON: on one line where it is short, else indented."""

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
    Column("run_id", "run_id"),
    Column("workflow", lambda record: f"{record['workflow_name']} ({record['workflow_id']})"),
    Column("version", "version"),
    Column("status", "status", Form.STATUS),
    Column("error", _error),
    Column("warnings", lambda record: "\n".join(record["warnings"])),
    Column("created_at", "created_at", Form.TIME),
    Column("started_at", "started_at", Form.TIME),
    Column("finished_at", "finished_at", Form.TIME),
    Column("duration", "duration_ms", Form.DURATION),
    Column("triggered_by", "triggered_by"),
    Column("key_id", "key_id"),
    Column("client_reference", "client_reference"),
    Column("labels", "labels"),
    Column("parameters", _json("parameters")),
    Column("result", _json("result")),
    Column("result_error", "result_error.message"),
    Column("outputs", "counts.outputs"),
    Column("data_purged_at", "data_purged_at", Form.TIME),
)

RUN_COLUMNS: Final = (
    Column("RUN ID", "run_id", rank=0),
    Column("WORKFLOW", "workflow_name", Form.TEXT, rank=2),
    Column("VERSION", "version", Form.NUMBER, rank=6),
    Column("STATUS", "status", Form.STATUS, rank=0),
    Column("CREATED", "created_at", Form.TIME, rank=1),
    Column("DURATION", "duration_ms", Form.DURATION, rank=3),
    Column("REFERENCE", "client_reference", Form.TEXT, rank=4),
    Column("WARNINGS", lambda record: len(record["warnings"]) or None, Form.NUMBER, rank=5),
)

STEP_COLUMNS: Final = (
    Column("STEP", "step", rank=0),
    Column("KIND", "kind", rank=4),
    Column("STATUS", "status", Form.STATUS, rank=0),
    Column("NEEDS", "needs", Form.TEXT, rank=3),
    Column("ATTEMPT", "attempt", Form.NUMBER, rank=5),
    Column("DURATION", "duration_ms", Form.DURATION, rank=2),
    Column("ERROR", "error.message", Form.TEXT, rank=1),
)
