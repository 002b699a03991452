"""`workflow-api runs`: runs of all keys and people."""

from functools import partial
from typing import Annotated, Final

import typer

from contract.fields import parse_enum_list
from contract.times import parse_date_time
from deploy.cli.following.follower import interruptible, watched_events
from deploy.cli.many_runs import (
    CANCELLING,
    ERASING,
    ChosenStatus,
    ChosenWorkflow,
    CreatedAfter,
    CreatedBefore,
    DryRun,
    OptionalRunId,
    RunSelection,
    Yes,
)
from deploy.cli.option_names import LIST_OPTIONS, option_names
from deploy.cli.options import DEFAULT_GRPC, Grpc, Json, RunId, Utc, read_option
from deploy.cli.output.printing import Record, TableColumn, print_json, print_json_line, print_line, print_table
from deploy.cli.output.records import record_of
from deploy.cli.output.run_details import (
    CHILD_COLUMNS,
    RUN_COLUMNS,
    RUN_DETAILS,
    STEP_COLUMNS,
    print_run,
    run_record,
)
from deploy.cli.run_logs import logs
from deploy.cli.run_outputs import download, outputs
from deploy.cli.run_resume import resume
from deploy.cli.run_start import start, workflow_definition
from deploy.client.backend import connected
from workflow_api.v1 import runs_pb2
from workflow_api.v1.run_lists_pb2 import ListChildRunsRequest

Reason = Annotated[str | None, typer.Option("--reason", help="Why, for the record; at most 500 characters.")]
_WORKFLOW_ID: Final = "wf_"

command = typer.Typer()
command.command("logs")(logs)
command.command("start")(start)
command.command("resume")(resume)
command.command("outputs")(outputs)
command.command("download")(download)


@command.command("list")
def list_runs(
    status: Annotated[str, typer.Option("--status", metavar="A,B", help="Only these statuses.")] = "",
    workflow: Annotated[
        str, typer.Option("--workflow", metavar="WORKFLOW", help="Only runs of this workflow, by id or name.")
    ] = "",
    created_after: Annotated[str, typer.Option("--created-after", metavar="TIME", help="ISO 8601 date-time.")] = "",
    created_before: Annotated[str, typer.Option("--created-before", metavar="TIME", help="ISO 8601 date-time.")] = "",
    client_reference: Annotated[
        str | None, typer.Option("--client-reference", help="Only runs with this client reference.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", help="Most runs, 1 to 100. Default: 20.")] = None,
    cursor: Annotated[str, typer.Option("--cursor", help="`next_cursor` of the previous page.")] = "",
    utc: Utc = False,
    grpc: Grpc = DEFAULT_GRPC,
    as_json: Json = False,
) -> None:
    """List runs, newest first."""
    statuses = read_option("--status", partial(parse_enum_list, runs_pb2.RunStatus.DESCRIPTOR), status)
    request = runs_pb2.ListRunsRequest(
        status=[runs_pb2.RunStatus.ValueType(number) for number in statuses or ()],
        workflow_id=workflow or None,
        created_after=read_option("--created-after", parse_date_time, created_after),
        created_before=read_option("--created-before", parse_date_time, created_before),
        client_reference=client_reference,
        page_size=limit,
        page_token=cursor,
    )
    with option_names(LIST_OPTIONS), connected(grpc) as backend:
        if workflow and not workflow.startswith(_WORKFLOW_ID):
            request.workflow_id = workflow_definition(backend, workflow, None).workflow.workflow_id
        page = record_of(backend.call(backend.runs.ListRuns, request))
        if workflow and not page["items"]:
            # An empty list may mean an unknown workflow, which is refused here.
            workflow_definition(backend, workflow, None)
    if as_json:
        print_json(page)
        return
    print_table(page["items"], RUN_COLUMNS, none="No run.", utc=utc)
    if page["next_cursor"]:
        print(f"\nMore with --cursor {page['next_cursor']}")


@command.command("show")
def show(run_id: RunId, utc: Utc = False, grpc: Grpc = DEFAULT_GRPC, as_json: Json = False) -> None:
    """Show one run and its steps; with --json the run alone."""
    with connected(grpc) as backend:
        run = backend.call(backend.runs.GetRun, runs_pb2.GetRunRequest(run_id=run_id))
        if as_json:
            print_json(record_of(run))
            return
        print_run(run_record(run), RUN_DETAILS, utc=utc)
        if not run.HasField("data_purged_at"):
            steps = backend.call(backend.runs.ListRunSteps, runs_pb2.ListRunStepsRequest(run_id=run_id))
            print()
            print_table(record_of(steps)["items"], STEP_COLUMNS, none="No step.", utc=utc)
            if any(step.kind == runs_pb2.STEP_KIND_WORKFLOW for step in steps.items):
                children = backend.call(backend.run_lists.ListChildRuns, ListChildRunsRequest(run_id=run_id))
                print()
                print_table(record_of(children)["items"], CHILD_COLUMNS, none="No child.", utc=utc)


@command.command("events")
def events(
    run_id: RunId,
    follow: Annotated[bool, typer.Option("--follow", help="Follow all segments until the run ends.")] = False,
    segment: Annotated[str, typer.Option("--segment", metavar="ID", help="Segment; default: the latest.")] = "",
    after_seq: Annotated[int | None, typer.Option("--after-seq", help="Only events after this one.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", help="Most events, 1 to 500. Default: 200.")] = None,
    grpc: Grpc = DEFAULT_GRPC,
    as_json: Json = False,
) -> None:
    """Show the events of one segment, or follow the whole run.

    With --follow and --json every event is a JSON object on a line of its own.
    """
    if follow and (segment or after_seq is not None or limit is not None):
        raise typer.BadParameter("--follow reads every segment from its start; omit the other options")
    with option_names(LIST_OPTIONS), connected(grpc) as backend:
        if follow:
            with interruptible() as check:
                for event in watched_events(backend, run_id, check):
                    print_event(event, as_json=as_json)
            return
        request = runs_pb2.ListRunEventsRequest(run_id=run_id, segment=segment, after_seq=after_seq, page_size=limit)
        record = record_of(backend.call(backend.runs.ListRunEvents, request))
    if as_json:
        print_json(record)
        return
    for event in record["events"]:
        print_event(event, as_json=False)


@command.command("cancel")
def cancel(
    run_id: OptionalRunId = None,
    reason: Reason = None,
    workflow: ChosenWorkflow = "",
    status: ChosenStatus = "",
    created_after: CreatedAfter = "",
    created_before: CreatedBefore = "",
    dry_run: DryRun = False,
    yes: Yes = False,
    grpc: Grpc = DEFAULT_GRPC,
    as_json: Json = False,
) -> None:
    """End a run, or all that the options choose; steps that still execute are interrupted soon after."""
    choice = RunSelection(workflow, status, created_after, created_before)
    with option_names(LIST_OPTIONS), connected(grpc) as backend:
        if choice.is_for_many(run_id):

            def cancel_one(run_id: str) -> None:
                backend.call(backend.runs.CancelRun, runs_pb2.CancelRunRequest(run_id=run_id, reason=reason))

            CANCELLING.run(backend, choice, cancel_one, dry_run=dry_run, yes=yes, as_json=as_json)
            return
        assert run_id is not None
        request = runs_pb2.CancelRunRequest(run_id=run_id, reason=reason)
        record = record_of(backend.call(backend.runs.CancelRun, request))
    if as_json:
        print_json(record)
    elif record["status"] == "cancelled":
        print(f"{run_id} is cancelled.")
    else:
        print(f"{run_id} is {record['status']}, and ends soon.")


@command.command("erase")
def erase(
    run_id: OptionalRunId = None,
    reason: Reason = None,
    workflow: ChosenWorkflow = "",
    status: ChosenStatus = "",
    created_after: CreatedAfter = "",
    created_before: CreatedBefore = "",
    dry_run: DryRun = False,
    yes: Yes = False,
    grpc: Grpc = DEFAULT_GRPC,
    as_json: Json = False,
) -> None:
    """Erase everything that a finished run holds, or all that the options choose, for good.

    Ids, times and counts stay.
    """
    choice = RunSelection(workflow, status, created_after, created_before)
    with option_names(LIST_OPTIONS), connected(grpc) as backend:
        if choice.is_for_many(run_id):

            def erase_one(run_id: str) -> None:
                backend.call(backend.runs.EraseRunData, runs_pb2.EraseRunDataRequest(run_id=run_id, reason=reason))

            ERASING.run(backend, choice, erase_one, dry_run=dry_run, yes=yes, as_json=as_json)
            return
        assert run_id is not None
        request = runs_pb2.EraseRunDataRequest(run_id=run_id, reason=reason)
        record = record_of(backend.call(backend.runs.EraseRunData, request))
    if as_json:
        print_json(record)
    else:
        print(f"The data of {run_id} is erased.")


def print_event(event: Record, *, as_json: bool) -> None:
    """Prints one event as one line."""
    if as_json:
        print_json_line(event)
        return
    cells = (column.cell(event) for column in EVENT_COLUMNS)
    print_line("  ".join(cell for cell in cells if cell != "-"))


EVENT_COLUMNS: Final = (
    TableColumn("AT", "at"),
    TableColumn("SEQ", "seq"),
    TableColumn("TYPE", "type"),
    TableColumn("STEP", "step"),
    TableColumn("DATA", "data"),
)
