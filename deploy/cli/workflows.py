"""`workflow-api workflows`: workflows and their versions."""

from typing import Annotated, Any, Final

import typer

from deploy.cli.options import DEFAULT_GRPC, Grpc, Json, Workflow
from deploy.cli.printing import Column, Record, print_details, print_json, print_table
from deploy.cli.raw_json import RawJson
from deploy.cli.records import record_of
from deploy.cli.terminal import printable
from deploy.client.backend import connected
from workflow_api.v1 import workflows_pb2

PAGE: Final = 100

command = typer.Typer()


@command.command("list")
def list_workflows(
    q: Annotated[str, typer.Option("--q", help="Only names that begin so.")] = "",
    grpc: Grpc = DEFAULT_GRPC,
    as_json: Json = False,
) -> None:
    """List all workflows by name, drafts and inactive ones too."""
    items: list[dict[str, Any]] = []
    request = workflows_pb2.ListWorkflowsRequest(q=q, page_size=PAGE, include_inactive=True)
    with connected(grpc) as backend:
        while True:
            page = backend.call(backend.workflows.ListWorkflows, request)
            items += record_of(page)["items"]
            if not page.HasField("next_page_token"):
                break
            request.page_token = page.next_page_token
    if as_json:
        print_json({"items": items})
    else:
        print_table(items, WORKFLOW_COLUMNS, none="No workflow: apply a manifest with `workflow-api apply FILE`.")


@command.command("show")
def show(
    workflow: Workflow,
    version: Annotated[int | None, typer.Option("--version", help="Version; the active one when not given.")] = None,
    grpc: Grpc = DEFAULT_GRPC,
    as_json: Json = False,
) -> None:
    """Show one version of a workflow with its definition."""
    with connected(grpc) as backend:
        request = workflows_pb2.GetWorkflowDefinitionRequest(workflow=workflow, version=version)
        record = record_of(backend.call(backend.workflows.GetWorkflowDefinition, request))
    if as_json:
        print_json(record)
        return
    shown = {"shown": record["version"], "resources": record["resources"]}
    print_details({**record["workflow"], **shown}, (*WORKFLOW_DETAILS, *VERSION_DETAILS))
    print()
    print(printable(definition_text(record["definition"]), lines=True))


def definition_text(definition: RawJson) -> str:
    """Returns a definition as YAML, or as JSON where it is nested too deep to parse."""
    import yaml

    try:
        return yaml.safe_dump(definition.value(), sort_keys=False, allow_unicode=True, width=100).rstrip("\n")
    except (ValueError, RecursionError):
        return definition.text


@command.command("activate")
def activate(workflow: Workflow, grpc: Grpc = DEFAULT_GRPC, as_json: Json = False) -> None:
    """Let a workflow be started."""
    set_status(workflow, workflows_pb2.WORKFLOW_STATUS_ACTIVE, grpc, as_json=as_json)


@command.command("deactivate")
def deactivate(workflow: Workflow, grpc: Grpc = DEFAULT_GRPC, as_json: Json = False) -> None:
    """Let a workflow no longer be started; its runs go on."""
    set_status(workflow, workflows_pb2.WORKFLOW_STATUS_INACTIVE, grpc, as_json=as_json)


def set_status(workflow: str, status: workflows_pb2.WorkflowStatus.ValueType, grpc: str, *, as_json: bool) -> None:
    """Changes a workflow's status and prints the workflow."""
    with connected(grpc) as backend:
        request = workflows_pb2.UpdateWorkflowStatusRequest(workflow=workflow, status=status)
        record = record_of(backend.call(backend.workflows.UpdateWorkflowStatus, request))
    if as_json:
        print_json(record)
    else:
        print_details(record, WORKFLOW_DETAILS)


WORKFLOW_COLUMNS: Final = (
    Column("WORKFLOW ID", "workflow_id"),
    Column("NAME", "name"),
    Column("STATUS", "status"),
    Column("VERSION", "version"),
    Column("READY", "readiness.ready"),
    Column("UPDATED", "updated_at"),
)

WORKFLOW_DETAILS: Final = (
    Column("workflow_id", "workflow_id"),
    Column("name", "name"),
    Column("description", "description"),
    Column("status", "status"),
    Column("version", "version"),
    Column("ready", "readiness.ready"),
    Column("reasons", lambda record: "\n".join(record["readiness"]["reasons"])),
    Column("max_run_hours", "max_run_hours"),
    Column("parallel_steps", "parallel_steps"),
    Column("pii_policy", "pii_policy"),
    Column("created_at", "created_at"),
    Column("updated_at", "updated_at"),
)


def _resources(record: Record) -> str:
    return "\n".join(
        f"{each['kind']} {each['name']}: " + ("none" if each["version"] is None else f"version {each['version']}")
        for each in record["resources"]
    )


VERSION_DETAILS: Final = (Column("version shown", "shown"), Column("uses", _resources))
