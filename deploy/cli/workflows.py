"""`workflow-api workflows`: workflows and their versions."""

from typing import Annotated, Final

import typer

from deploy.cli.manifests import print_applied
from deploy.cli.option_names import NAMED_OPTIONS, option_names
from deploy.cli.options import DEFAULT_GRPC, Grpc, Json, Utc, Workflow
from deploy.cli.output.printing import Form, Record, TableColumn, print_details, print_json, print_table
from deploy.cli.output.records import PAGE, items_of, record_of
from deploy.cli.output.terminal import printable
from deploy.cli.resources import definition_text, variable_lines
from deploy.client.backend import connected
from workflow_api.v1 import definitions_pb2, workflows_pb2

command = typer.Typer()


@command.command("list")
def list_workflows(
    q: Annotated[str, typer.Option("--q", help="Only names with this prefix.")] = "",
    utc: Utc = False,
    grpc: Grpc = DEFAULT_GRPC,
    as_json: Json = False,
) -> None:
    """List all workflows by name, drafts and inactive ones too."""
    request = workflows_pb2.ListWorkflowsRequest(q=q, page_size=PAGE, include_inactive=True)
    with option_names(NAMED_OPTIONS), connected(grpc) as backend:
        pages = backend.pages(backend.workflows.ListWorkflows, request)
        items = items_of(pages)
    if as_json:
        print_json({"items": items})
    else:
        print_table(
            items, WORKFLOW_COLUMNS, none="No workflow: apply a manifest with `workflow-api apply FILE`.", utc=utc
        )


@command.command("show")
def show(
    workflow: Workflow,
    version: Annotated[int | None, typer.Option("--version", help="Version; default: the active one.")] = None,
    utc: Utc = False,
    grpc: Grpc = DEFAULT_GRPC,
    as_json: Json = False,
) -> None:
    """Show one version of a workflow with its definition."""
    with option_names(NAMED_OPTIONS), connected(grpc) as backend:
        request = workflows_pb2.GetWorkflowDefinitionRequest(workflow=workflow, version=version)
        record = record_of(backend.call(backend.workflows.GetWorkflowDefinition, request))
    if as_json:
        print_json(record)
        return
    shown = {name: record[name] for name in ("resources", "deleted_at", "set_name", "variables")}
    print_details(
        {**record["workflow"], **shown, "shown": record["version"]}, (*WORKFLOW_DETAILS, *VERSION_DETAILS), utc=utc
    )
    print()
    print(printable(definition_text(record["definition"]), lines=True))


@command.command("activate")
def activate(
    workflow: Workflow,
    version: Annotated[
        int | None,
        typer.Option("--version", help="Make a new version with all that this one used, and activate that."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --version: change nothing; print what would change.")
    ] = False,
    grpc: Grpc = DEFAULT_GRPC,
    as_json: Json = False,
) -> None:
    """Activate a workflow, so that runs can be started; with --version as it was in that version.

    Agents, environments and other workflows stay as they are.
    """
    if version is not None:
        if version < 1:
            raise typer.BadParameter(f"must be from 1 to the newest version; it is {version}", param_hint="--version")
        _go_back(workflow, version, grpc, dry_run=dry_run, as_json=as_json)
    elif dry_run:
        raise typer.BadParameter("must have --version beside it", param_hint="--dry-run")
    else:
        set_status(workflow, workflows_pb2.WORKFLOW_STATUS_ACTIVE, grpc, as_json=as_json)


@command.command("deactivate")
def deactivate(workflow: Workflow, grpc: Grpc = DEFAULT_GRPC, as_json: Json = False) -> None:
    """Deactivate a workflow, so that no runs can be started; its runs continue."""
    set_status(workflow, workflows_pb2.WORKFLOW_STATUS_INACTIVE, grpc, as_json=as_json)


def _go_back(workflow: str, version: int, grpc: str, *, dry_run: bool, as_json: bool) -> None:
    with option_names(NAMED_OPTIONS), connected(grpc) as backend:
        request = definitions_pb2.RestoreWorkflowVersionRequest(workflow=workflow, version=version, dry_run=dry_run)
        record = record_of(backend.call(backend.definitions.RestoreWorkflowVersion, request))
    if as_json:
        print_json(record)
    else:
        print_applied([record["workflow"], *record["pinned"]], dry_run=dry_run)


def set_status(workflow: str, status: workflows_pb2.WorkflowStatus.ValueType, grpc: str, *, as_json: bool) -> None:
    """Changes a workflow's status and prints the workflow."""
    with option_names(NAMED_OPTIONS), connected(grpc) as backend:
        request = workflows_pb2.UpdateWorkflowStatusRequest(workflow=workflow, status=status)
        record = record_of(backend.call(backend.workflows.UpdateWorkflowStatus, request))
    if as_json:
        print_json(record)
    else:
        print_details(record, WORKFLOW_DETAILS)


WORKFLOW_COLUMNS: Final = (
    TableColumn("WORKFLOW ID", "workflow_id", rank=0),
    TableColumn("NAME", "name", Form.TEXT, rank=0),
    TableColumn("STATUS", "status", Form.STATUS, rank=1),
    TableColumn("VERSION", "version", Form.NUMBER, rank=4),
    TableColumn("READY", lambda record: "ready" if record["readiness"]["ready"] else "not ready", Form.STATUS, rank=2),
    TableColumn("UPDATED", "updated_at", Form.TIME, rank=3),
)

WORKFLOW_DETAILS: Final = (
    TableColumn("workflow_id", "workflow_id"),
    TableColumn("name", "name"),
    TableColumn("description", "description"),
    TableColumn("status", "status", Form.STATUS),
    TableColumn("version", "version"),
    TableColumn("ready", "readiness.ready"),
    TableColumn("reasons", lambda record: "\n".join(record["readiness"]["reasons"])),
    TableColumn("max_run_hours", "max_run_hours"),
    TableColumn("parallel_steps", "parallel_steps"),
    TableColumn("pii_policy", "pii_policy"),
    TableColumn("created_at", "created_at", Form.TIME),
    TableColumn("updated_at", "updated_at", Form.TIME),
)


def _resources(record: Record) -> str:
    return "\n".join(
        f"{each['kind']} {each['name']}: " + ("none" if each["version"] is None else f"version {each['version']}")
        for each in record["resources"]
    )


VERSION_DETAILS: Final = (
    TableColumn("set", "set_name"),
    TableColumn("deleted_at", "deleted_at", Form.TIME),
    TableColumn("version shown", "shown"),
    TableColumn("uses", _resources),
    TableColumn("variables", variable_lines),
)
