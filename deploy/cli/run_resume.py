"""`workflow-api runs resume`: starts a run that reuses completed steps of a failed or cancelled run."""

import sys
import uuid
from typing import Annotated, Final

import typer

from deploy.cli.many_runs import (
    RESUMING,
    ChosenStatus,
    ChosenWorkflow,
    CreatedAfter,
    CreatedBefore,
    DryRun,
    OptionalRunId,
    RunSelection,
    Yes,
)
from deploy.cli.option_names import RESUME_OPTIONS, option_names
from deploy.cli.options import DEFAULT_GRPC, Grpc, Json, Utc
from deploy.cli.output.printing import Form, TableColumn, print_json, print_table
from deploy.cli.output.records import record_of
from deploy.cli.output.run_details import RUN_DETAILS, print_run, run_record
from deploy.cli.run_inputs import Params, read_parameters
from deploy.cli.run_start import opened, wait_for, workflow_definition
from deploy.client.backend import BackendClient, connected
from workflow_api.v1 import runs_pb2

# Longer than other calls, because uploaded files are copied.
_SECONDS: Final = 300.0
_COLUMNS: Final = (
    TableColumn("STEP", "step", rank=0),
    TableColumn("DONE", "done", rank=0),
    TableColumn("WHY", "why", Form.TEXT, rank=1),
)


def resume(
    run_id: OptionalRunId = None,
    from_step: Annotated[
        str | None, typer.Option("--from", metavar="STEP", help="Run this step again, and all that need it.")
    ] = None,
    version: Annotated[int | None, typer.Option("--version", help="Version; the active one when not given.")] = None,
    param: Params = None,
    dry_run: DryRun = False,
    again: Annotated[
        bool, typer.Option("--again", help="Resume it though another run has taken over from it already.")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Show its steps until it ends; exit with 1 if it fails.")
    ] = False,
    workflow: ChosenWorkflow = "",
    status: ChosenStatus = "",
    created_after: CreatedAfter = "",
    created_before: CreatedBefore = "",
    yes: Yes = False,
    utc: Utc = False,
    grpc: Grpc = DEFAULT_GRPC,
    as_json: Json = False,
) -> None:
    """Start a run that reuses the completed steps of a failed or cancelled one, or of every run that options select.

    Prints the new run's id, and to standard error why each other step is executed; with --wait the finished run.
    """
    if wait and (dry_run or as_json):
        raise typer.BadParameter("--wait shows a run; omit --dry-run and --json")
    choice = RunSelection(workflow, status, created_after, created_before)
    with option_names(RESUME_OPTIONS), connected(grpc) as backend:
        if choice.is_for_many(run_id):
            if wait or param:
                raise typer.BadParameter("--wait and --param are for one run: name it by RUN_ID")

            def is_resumable(run_id: str) -> bool:
                run = backend.call(backend.runs.GetRun, runs_pb2.GetRunRequest(run_id=run_id))
                return not run.HasField("data_purged_at") and (again or not run.HasField("resumed_by"))

            def resume_one(run_id: str) -> str:
                return _resume_run(backend, run_id, from_step, version, None, again=again).run.summary.run_id

            RESUMING.run(backend, choice, resume_one, takes=is_resumable, dry_run=dry_run, yes=yes, as_json=as_json)
            return
        assert run_id is not None
        parameters = _parameters(backend, run_id, version, param) if param else None
        answer = _resume_run(backend, run_id, from_step, version, parameters, dry_run=dry_run, again=again)
        executed = [{"step": each.step, "why": each.why} for each in answer.executed]
        if as_json:
            new_id = answer.run.summary.run_id or None
            print_json({"run_id": new_id, "reused": list(answer.reused), "executed": executed})
            return
        if dry_run:
            rows = [{"step": step, "done": "reused", "why": None} for step in answer.reused]
            print_table([*rows, *({**row, "done": "executed"} for row in executed)], _COLUMNS, none="No step.")
            return
        if not wait:
            print(answer.run.summary.run_id)
        for row in executed:
            print(f"{row['step']} is executed: {row['why']}", file=sys.stderr)
        if not wait:
            return
        run = opened(backend, wait_for(backend, answer.run, quiet=False))
    print_run(run_record(run), RUN_DETAILS, utc=utc)
    if run.summary.status in {runs_pb2.RUN_STATUS_FAILED, runs_pb2.RUN_STATUS_CANCELLED}:
        raise typer.Exit(1)


def _resume_run(
    backend: BackendClient,
    run_id: str,
    from_step: str | None,
    version: int | None,
    parameters: str | None,
    *,
    dry_run: bool = False,
    again: bool = False,
) -> runs_pb2.ResumeRunResponse:
    """Resumes a run, or with `dry_run` only returns which steps it would reuse and execute."""
    request = runs_pb2.ResumeRunRequest(
        run_id=run_id,
        from_step=from_step,
        version=version,
        parameters=parameters,
        dry_run=dry_run,
        again=again,
        idempotency_key="" if dry_run else str(uuid.uuid4()),
    )
    return backend.call(backend.runs.ResumeRun, request, _SECONDS)


def _parameters(backend: BackendClient, run_id: str, version: int | None, param: list[str]) -> str:
    """Returns the values of options as JSON, by the types that the workflow's version declares."""
    run = backend.call(backend.runs.GetRun, runs_pb2.GetRunRequest(run_id=run_id))
    definition = workflow_definition(backend, run.summary.workflow_id, version)
    return read_parameters(param, record_of(definition)["definition"].value()["parameters"])
