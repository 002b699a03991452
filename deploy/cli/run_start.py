"""`workflow-api runs start`: starts a run in the name of a person; with `--wait` follows it to its end."""

import sys
import uuid
from collections import deque
from collections.abc import Iterable
from typing import Annotated, Any, Final

import typer

from contract.times import parse_date_time
from deploy.cli.following.follower import interruptible, watched_events
from deploy.cli.following.run_progress import FAILED, RunProgress, show_log
from deploy.cli.option_names import START_OPTIONS, option_names
from deploy.cli.options import DEFAULT_GRPC, Grpc, Json, Utc, Workflow, read_option
from deploy.cli.output.printing import Record, print_json
from deploy.cli.output.records import record_of
from deploy.cli.output.run_details import RUN_DETAILS, print_run, run_record
from deploy.cli.run_inputs import InputText, Params, read_labels, read_parameters, text_or_file
from deploy.cli.run_outputs import list_outputs
from deploy.cli.schedules import print_schedule
from deploy.client.backend import BackendClient, connected
from workflow_api.v1 import runs_pb2, schedules_pb2, workflows_pb2

_ASKS: Final = "approval.requested"


def start(
    workflow: Workflow,
    param: Params = None,
    input_text: InputText = None,
    version: Annotated[int | None, typer.Option("--version", help="Version; the active one when not given.")] = None,
    client_reference: Annotated[
        str | None, typer.Option("--client-reference", help="Your own reference, to find the run by.")
    ] = None,
    label: Annotated[list[str] | None, typer.Option("--label", metavar="K=V", help="A label; repeat for more.")] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Show its steps until it ends; exit with 1 if it fails.")
    ] = False,
    at: Annotated[
        str, typer.Option("--at", metavar="TIME", help="Plan the start: ISO 8601 date-time, UTC without an offset.")
    ] = "",
    utc: Utc = False,
    grpc: Grpc = DEFAULT_GRPC,
    as_json: Json = False,
) -> None:
    """Start a run, as a person and with no key: it takes neither slot nor quota.

    Prints the run's id; with --wait the finished run; with --at the planned start, which `schedules cancel` cancels.
    """
    planned_at = read_option("--at", parse_date_time, at)
    if wait and planned_at is not None:
        raise typer.BadParameter("--wait follows a run that starts now; omit --at")
    with option_names(START_OPTIONS), connected(grpc) as backend:
        definition = workflow_definition(backend, workflow, version)
        request = start_request(
            definition.workflow.workflow_id,
            parameters=read_parameters(param or [], record_of(definition)["definition"].value()["parameters"]),
            input_text=input_text,
            version=version,
        )
        if client_reference is not None:
            request.client_reference = client_reference
        request.labels.update(read_labels(label or []))
        if planned_at is not None:
            plan = schedules_pb2.PlanStartRequest(start=request, at=planned_at)
            print_schedule(backend.call(backend.schedules.PlanStart, plan), as_json=as_json)
            return
        run = backend.call(backend.runs.StartRun, request).run
        if wait:
            run = opened(backend, wait_for(backend, run, quiet=as_json))
    if as_json:
        print_json(record_of(run))
    elif wait:
        print_run(run_record(run), RUN_DETAILS, utc=utc)
    else:
        print(run.summary.run_id)
    if run.summary.status in {runs_pb2.RUN_STATUS_FAILED, runs_pb2.RUN_STATUS_CANCELLED}:
        raise typer.Exit(1)


def workflow_definition(backend: BackendClient, workflow: str, version: int | None) -> workflows_pb2.WorkflowDefinition:
    """Returns one version of a workflow, by its id or name."""
    request = workflows_pb2.GetWorkflowDefinitionRequest(workflow=workflow, version=version)
    return backend.call(backend.workflows.GetWorkflowDefinition, request)


def start_request(
    workflow_id: str, *, parameters: str, input_text: str | None, version: int | None = None
) -> runs_pb2.StartRunRequest:
    """Returns the request for a run that a person starts."""
    return runs_pb2.StartRunRequest(
        workflow_id=workflow_id,
        idempotency_key=str(uuid.uuid4()),
        parameters=parameters,
        input_text=None if input_text is None else text_or_file("--input-text", input_text),
        version=version,
        triggered_by=runs_pb2.TRIGGERED_BY_CONSOLE,
    )


def wait_for(backend: BackendClient, run: runs_pb2.Run, *, quiet: bool) -> runs_pb2.Run:
    """Follows a run to its end and returns the ended run; shows its steps unless `quiet`."""
    run_id = run.summary.run_id
    with interruptible() as check:
        events = watched_events(backend, run_id, check)
        if quiet:
            deque(events, maxlen=0)
        else:
            _show(backend, run_id, events)
    return backend.call(backend.runs.GetRun, runs_pb2.GetRunRequest(run_id=run_id))


def _show(backend: BackendClient, run_id: str, events: Iterable[Record]) -> None:
    print(run_id, file=sys.stderr)
    progress = RunProgress([step["step"] for step in steps_of(backend, run_id)])
    with progress.shown():
        for event in events:
            progress.on_event(event)
            if event["type"] == FAILED:
                show_log(backend, run_id, event, progress)
            if event["type"] == _ASKS:
                progress.write(_approval_line(event))
        progress.on_steps(steps_of(backend, run_id))


def opened(backend: BackendClient, run: runs_pb2.Run) -> runs_pb2.Run:
    """Returns an ended run once its result and outputs are swept for personal data; until then it shows neither."""
    list_outputs(backend, run.summary.run_id)
    return backend.call(backend.runs.GetRun, runs_pb2.GetRunRequest(run_id=run.summary.run_id))


def steps_of(backend: BackendClient, run_id: str) -> list[dict[str, Any]]:
    """Returns the steps of a run in the order of the definition."""
    steps = backend.call(backend.runs.ListRunSteps, runs_pb2.ListRunStepsRequest(run_id=run_id))
    items: list[dict[str, Any]] = record_of(steps)["items"]
    return items


def _approval_line(event: Record) -> str:
    approval = event["data"].value()["approval_id"]
    return f"{event['step']} waits for a decision: workflow-api approvals approve {approval}"
