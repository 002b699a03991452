"""`workflow-api schedules`: schedules of workflows, and single starts that people planned."""

import uuid
from typing import Annotated, Final

import typer

from deploy.cli.option_names import NAMED_OPTIONS, option_names
from deploy.cli.options import DEFAULT_GRPC, Grpc, Json, Utc, Workflow
from deploy.cli.output.printing import Form, Record, TableColumn, print_details, print_json, print_table
from deploy.cli.output.records import PAGE, items_of, record_of, with_nulls
from deploy.client.backend import connected
from workflow_api.v1 import schedules_pb2

_TO_THE_MINUTE: Final = len("2026-09-24T02:00")

command = typer.Typer()

Name = Annotated[str, typer.Argument(metavar="SCHEDULE", help="Name of the schedule.")]


@command.command("list")
def list_schedules(
    workflow: Annotated[
        str | None, typer.Option("--workflow", metavar="WORKFLOW", help="Only of the workflow with this id or name.")
    ] = None,
    utc: Utc = False,
    grpc: Grpc = DEFAULT_GRPC,
    as_json: Json = False,
) -> None:
    """List schedules and planned starts, with the next five times and the last outcome of each."""
    request = schedules_pb2.ListSchedulesRequest(workflow=workflow, page_size=PAGE)
    with option_names(NAMED_OPTIONS), connected(grpc) as backend:
        pages = backend.pages(backend.schedules.ListSchedules, request)
        items = [with_nulls(item) for item in items_of(pages)]
    if as_json:
        print_json({"items": items})
        return
    none = "No schedule: add `schedules` to a workflow's manifest, or plan a start with `workflow-api runs start --at`."
    print_table(items, COLUMNS, none=none, utc=utc)


@command.command("pause")
def pause(workflow: Workflow, name: Name, grpc: Grpc = DEFAULT_GRPC, as_json: Json = False) -> None:
    """Let a schedule start nothing until it is resumed."""
    with option_names(NAMED_OPTIONS), connected(grpc) as backend:
        request = schedules_pb2.PauseScheduleRequest(workflow=workflow, name=name)
        print_schedule(backend.call(backend.schedules.PauseSchedule, request), as_json=as_json)


@command.command("resume")
def resume(workflow: Workflow, name: Name, grpc: Grpc = DEFAULT_GRPC, as_json: Json = False) -> None:
    """Let a schedule start runs again, from its next due time on."""
    with option_names(NAMED_OPTIONS), connected(grpc) as backend:
        request = schedules_pb2.ResumeScheduleRequest(workflow=workflow, name=name)
        print_schedule(backend.call(backend.schedules.ResumeSchedule, request), as_json=as_json)


@command.command("trigger")
def trigger(workflow: Workflow, name: Name, grpc: Grpc = DEFAULT_GRPC, as_json: Json = False) -> None:
    """Start a run of a schedule now; print the run's id."""
    with option_names(NAMED_OPTIONS), connected(grpc) as backend:
        request = schedules_pb2.TriggerScheduleRequest(workflow=workflow, name=name, idempotency_key=str(uuid.uuid4()))
        run = backend.call(backend.schedules.TriggerSchedule, request).run
    if as_json:
        print_json(record_of(run))
    else:
        print(run.summary.run_id)


@command.command("cancel")
def cancel(
    schedule_id: Annotated[str, typer.Argument(metavar="SCHEDULE_ID", help="The planned start, sch_ and its id.")],
    grpc: Grpc = DEFAULT_GRPC,
    as_json: Json = False,
) -> None:
    """Cancel a planned start that has not begun."""
    with option_names({"schedule_id": "SCHEDULE_ID"}), connected(grpc) as backend:
        request = schedules_pb2.CancelPlannedStartRequest(schedule_id=schedule_id)
        backend.call(backend.schedules.CancelPlannedStart, request)
    if as_json:
        print_json({"schedule_id": schedule_id, "cancelled": True})
    else:
        print(f"The planned start {schedule_id} is cancelled.")


def print_schedule(schedule: schedules_pb2.Schedule, *, as_json: bool) -> None:
    """Prints one schedule or planned start."""
    record = with_nulls(record_of(schedule))
    if as_json:
        print_json(record)
    else:
        print_details(record, DETAILS)


def _named(record: Record) -> str:
    return str(record["name"] or record["schedule_id"])


def _recurrence(record: Record) -> str:
    return f"{record['cron']} {record['timezone']}" if record["cron"] else "once"


def _state(record: Record) -> str:
    if record["paused"]:
        return "paused"
    if record["waiting"]:
        return "queued"
    return "active" if record["next_times"] else "ended"


def _next(record: Record) -> str | None:
    return ", ".join(time[:_TO_THE_MINUTE].replace("T", " ") for time in record["next_times"]) or None


def _last(record: Record) -> str | None:
    last = record["last"]
    if not last:
        return None
    return " ".join(str(each) for each in (last["outcome"], last["run_id"], last["reason"]) if each)


COLUMNS: Final = (
    TableColumn("WORKFLOW", "workflow_name", Form.TEXT, rank=0),
    TableColumn("SCHEDULE", _named, rank=0),
    TableColumn("WHEN", _recurrence, rank=1),
    TableColumn("STATE", _state, Form.STATUS, rank=0),
    TableColumn("NEXT (UTC)", _next, Form.TEXT, rank=0),
    TableColumn("LAST", _last, Form.TEXT, rank=1),
)

DETAILS: Final = (
    TableColumn("schedule_id", "schedule_id"),
    TableColumn("workflow", "workflow_name"),
    TableColumn("name", "name"),
    TableColumn("when", _recurrence),
    TableColumn("overlap", "overlap"),
    TableColumn("catch_up", "catch_up"),
    TableColumn("state", _state),
    TableColumn("next (UTC)", _next),
    TableColumn("waiting", "waiting"),
    TableColumn("last", _last),
    TableColumn("planned_by", "planned_by"),
)
