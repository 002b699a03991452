"""`workflow-api runs`: runs of every key."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Annotated, Any, Final

import typer

from deploy.cli.options import DEFAULT_GRPC, Grpc, Json, RunId, read_option
from deploy.cli.printing import Column, Record, print_details, print_json, print_json_line, print_line, print_table
from deploy.cli.records import record_of
from deploy.client.backend import Backend, connected
from edge.codec.date_times import parse_date_time
from edge.codec.enum_lists import parse_enum_list
from workflow_api.v1 import runs_pb2

FOLLOW_SECONDS: Final = 0.5
PAGE: Final = 500
TERMINAL: Final = frozenset({runs_pb2.RUN_STATUS_COMPLETED, runs_pb2.RUN_STATUS_FAILED, runs_pb2.RUN_STATUS_CANCELLED})

command = typer.Typer()


@command.command("list")
def list_runs(
    status: Annotated[str, typer.Option("--status", metavar="A,B", help="Only these statuses.")] = "",
    workflow_id: Annotated[str, typer.Option("--workflow", metavar="ID", help="Only runs of this workflow.")] = "",
    created_after: Annotated[str, typer.Option("--created-after", metavar="TIME", help="ISO 8601 date-time.")] = "",
    created_before: Annotated[str, typer.Option("--created-before", metavar="TIME", help="ISO 8601 date-time.")] = "",
    client_reference: Annotated[str | None, typer.Option("--client-reference", help="Only with this one.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", help="Most runs, 1 to 100. Default: 20.")] = None,
    cursor: Annotated[str, typer.Option("--cursor", help="`next_cursor` of the page before.")] = "",
    grpc: Grpc = DEFAULT_GRPC,
    as_json: Json = False,
) -> None:
    """List runs, newest first."""
    statuses = read_option("--status", partial(parse_enum_list, runs_pb2.RunStatus.DESCRIPTOR), status)
    request = runs_pb2.ListRunsRequest(
        status=[runs_pb2.RunStatus.ValueType(number) for number in statuses or ()],
        workflow_id=workflow_id or None,
        created_after=read_option("--created-after", parse_date_time, created_after),
        created_before=read_option("--created-before", parse_date_time, created_before),
        client_reference=client_reference,
        page_size=limit,
        page_token=cursor,
    )
    with connected(grpc) as backend:
        page = record_of(backend.call(backend.runs.ListRuns, request))
    if as_json:
        print_json(page)
        return
    print_table(page["items"], RUN_COLUMNS, none="No run.")
    if page["next_cursor"]:
        print(f"\nMore with --cursor {page['next_cursor']}")


@command.command("show")
def show(run_id: RunId, grpc: Grpc = DEFAULT_GRPC, as_json: Json = False) -> None:
    """Show one run and its steps; with --json the run alone."""
    with connected(grpc) as backend:
        run = backend.call(backend.runs.GetRun, runs_pb2.GetRunRequest(run_id=run_id))
        if as_json:
            print_json(record_of(run))
            return
        print_details(record_of(run), RUN_DETAILS)
        if not run.HasField("data_purged_at"):
            steps = backend.call(backend.runs.ListRunSteps, runs_pb2.ListRunStepsRequest(run_id=run_id))
            print()
            print_table(record_of(steps)["items"], STEP_COLUMNS, none="No step.")


@command.command("events")
def events(
    run_id: RunId,
    follow: Annotated[bool, typer.Option("--follow", help="Go on over all segments until the run ends.")] = False,
    segment: Annotated[str, typer.Option("--segment", metavar="ID", help="Segment; the latest when not given.")] = "",
    after_seq: Annotated[int | None, typer.Option("--after-seq", help="Only events after this one.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", help="Most events, 1 to 500. Default: 200.")] = None,
    grpc: Grpc = DEFAULT_GRPC,
    as_json: Json = False,
) -> None:
    """Show the events of one segment, or follow the whole run.

    With --follow and --json every event is a JSON object on a line of its own.
    """
    if follow and (segment or after_seq is not None or limit is not None):
        raise typer.BadParameter("--follow reads every segment from its start; leave the other options out")
    with connected(grpc) as backend:
        if follow:
            with interruptible() as check:
                for event in all_events(backend, run_id, check):
                    print_event(event, as_json=as_json)
            return
        request = runs_pb2.ListRunEventsRequest(run_id=run_id, segment=segment, after_seq=after_seq, page_size=limit)
        record = record_of(backend.call(backend.runs.ListRunEvents, request))
    if as_json:
        print_json(record)
        return
    for event in record["events"]:
        print_event(event, as_json=False)


@contextmanager
def interruptible() -> Iterator[Callable[[], None]]:
    """Gives a check that raises KeyboardInterrupt after SIGINT, even if gRPC swallowed the exception of the signal."""
    received: list[int] = []

    def handle(number: int, _: FrameType | None) -> None:
        received.append(number)
        raise KeyboardInterrupt

    def check() -> None:
        if received:
            raise KeyboardInterrupt

    former = signal.signal(signal.SIGINT, handle)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, former)


def all_events(backend: Backend, run_id: str, check: Callable[[], None]) -> Iterator[dict[str, Any]]:
    """Yields every event of a run with its `segment_id`, in the order of segments, until the run is terminal.

    `check` is called before each round, and may raise to end it.
    """
    read: dict[str, int] = {}
    ended = False
    while True:
        check()
        latest = events_after(backend, run_id, "", 0, limit=1)
        for segment in latest.segments:
            while segment.last_seq > read.get(segment.segment_id, 0):
                page = events_after(backend, run_id, segment.segment_id, read.get(segment.segment_id, 0))
                for event in record_of(page)["events"]:
                    yield {"segment_id": segment.segment_id, **event}
                read[segment.segment_id] = page.next_after_seq
        if ended:
            return
        run = backend.call(backend.runs.GetRun, runs_pb2.GetRunRequest(run_id=run_id))
        # Events written between the last page and the end of the run are read in one more round.
        ended = run.summary.status in TERMINAL
        if not ended:
            time.sleep(FOLLOW_SECONDS)


def events_after(
    backend: Backend, run_id: str, segment: str, after_seq: int, *, limit: int = PAGE
) -> runs_pb2.ListRunEventsResponse:
    """Reads one page of events; an empty segment id stands for the latest segment."""
    request = runs_pb2.ListRunEventsRequest(run_id=run_id, segment=segment, after_seq=after_seq, page_size=limit)
    return backend.call(backend.runs.ListRunEvents, request)


def print_event(event: Record, *, as_json: bool) -> None:
    """Prints one event as one line."""
    if as_json:
        print_json_line(event)
        return
    cells = (column.cell(event) for column in EVENT_COLUMNS)
    print_line("  ".join(cell for cell in cells if cell != "-"))


RUN_COLUMNS: Final = (
    Column("RUN ID", "run_id"),
    Column("WORKFLOW", "workflow_name"),
    Column("VERSION", "version"),
    Column("STATUS", "status"),
    Column("CREATED", "created_at"),
    Column("DURATION MS", "duration_ms"),
    Column("REFERENCE", "client_reference"),
    Column("WARNINGS", lambda record: len(record["warnings"]) or None),
)

RUN_DETAILS: Final = (
    Column("run_id", "run_id"),
    Column("workflow", lambda record: f"{record['workflow_name']} ({record['workflow_id']})"),
    Column("version", "version"),
    Column("status", "status"),
    Column("error", lambda record: record.get("error") and f"{record['error']['code']}: {record['error']['message']}"),
    Column("warnings", lambda record: "\n".join(record["warnings"])),
    Column("created_at", "created_at"),
    Column("started_at", "started_at"),
    Column("finished_at", "finished_at"),
    Column("duration_ms", "duration_ms"),
    Column("triggered_by", "triggered_by"),
    Column("key_id", "key_id"),
    Column("client_reference", "client_reference"),
    Column("labels", "labels"),
    Column("parameters", "parameters"),
    Column("result", "result"),
    Column("result_error", "result_error.message"),
    Column("outputs", "counts.outputs"),
    Column("data_purged_at", "data_purged_at"),
)

STEP_COLUMNS: Final = (
    Column("STEP", "step"),
    Column("KIND", "kind"),
    Column("STATUS", "status"),
    Column("NEEDS", "needs"),
    Column("DURATION MS", "duration_ms"),
    Column("ERROR", "error.message"),
)

EVENT_COLUMNS: Final = (
    Column("AT", "at"),
    Column("SEQ", "seq"),
    Column("TYPE", "type"),
    Column("STEP", "step"),
    Column("DATA", "data"),
)
