"""`workflow-api deployment`: the deployment record."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

import typer
from google.protobuf.duration_pb2 import Duration

from contract.times import duration_of
from deploy.cli.option_names import option_names
from deploy.cli.options import DEFAULT_GRPC, Grpc, Json
from deploy.cli.output.printing import Form, TableColumn, print_details, print_json, print_table
from deploy.cli.output.records import items_of, record_of
from deploy.client.backend import connected
from workflow_api.v1 import deployment_health_pb2, deployment_pb2, runs_pb2
from workflow_api.v1.options_pb2 import TIME_UNIT_DAYS

command = typer.Typer()


@command.command("show")
def show(grpc: Grpc = DEFAULT_GRPC, as_json: Json = False) -> None:
    """Show the deployment record."""
    with option_names(ASSIGNED_NAMES), connected(grpc) as backend:
        request = deployment_pb2.GetDeploymentRequest()
        show_deployment(backend.call(backend.deployment.GetDeployment, request), as_json=as_json)


@command.command("set")
def set_fields(
    assignments: Annotated[
        list[str], typer.Argument(metavar="NAME=VALUE...", help="Such as governed=true licence=hold retention_days=30.")
    ],
    grpc: Grpc = DEFAULT_GRPC,
    as_json: Json = False,
) -> None:
    """Change the fields that are given."""
    request = deployment_pb2.UpdateDeploymentRequest(**read_assignments(assignments))
    with option_names(ASSIGNED_NAMES), connected(grpc) as backend:
        show_deployment(backend.call(backend.deployment.UpdateDeployment, request), as_json=as_json)


@command.command("upkeep")
def upkeep(grpc: Grpc = DEFAULT_GRPC, as_json: Json = False) -> None:
    """Erase and delete expired data now, as happens every hour."""
    with option_names(ASSIGNED_NAMES), connected(grpc) as backend:
        record = record_of(backend.call(backend.runs.RunUpkeep, runs_pb2.RunUpkeepRequest()))
    if as_json:
        print_json(record)
    else:
        print_details(record, UPKEEP_DETAILS)


@command.command("size")
def size(grpc: Grpc = DEFAULT_GRPC, as_json: Json = False) -> None:
    """Estimate the bytes of finished runs in database and object store, from each workflow's newest runs."""
    with option_names(ASSIGNED_NAMES), connected(grpc) as backend:
        request = deployment_health_pb2.ListWorkflowSizesRequest(page_size=100)
        pages = backend.pages(backend.deployment_health.ListWorkflowSizes, request)
        items = list(items_of(pages))
    if as_json:
        print_json({"items": items})
    else:
        print_table(items, SIZE_COLUMNS, none="There is no workflow.")


def show_deployment(deployment: deployment_pb2.Deployment, *, as_json: bool) -> None:
    """Prints the deployment record."""
    record = record_of(deployment)
    if as_json:
        print_json(record)
    else:
        print_details(record, DEPLOYMENT_DETAILS)


def read_assignments(assignments: list[str]) -> dict[str, Any]:
    """Reads `name=value` pairs as the fields of the request."""
    fields = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals or name not in SETTABLE:
            allowed = ", ".join(SETTABLE)
            raise typer.BadParameter(f"{assignment!r} is not NAME=VALUE with NAME one of {allowed}")
        field, read = SETTABLE[name]
        if field in fields:
            raise typer.BadParameter(f"{name} was given twice")
        fields[field] = read(name, value)
    return fields


def _boolean(name: str, value: str) -> bool:
    if value not in {"true", "false"}:
        raise typer.BadParameter(f"{name} must be true or false, not {value!r}")
    return value == "true"


def _integer(name: str, value: str) -> int:
    if not (value.isascii() and value.isdecimal() and len(value) < 10):
        raise typer.BadParameter(f"{name} must be a whole number, not {value!r}")
    return int(value)


def _days(name: str, value: str) -> Duration:
    return duration_of(_integer(name, value), TIME_UNIT_DAYS)


def _licence(name: str, value: str) -> str:
    if value not in {"active", "hold"}:
        raise typer.BadParameter(f"{name} must be active or hold, not {value!r}")
    return value


def _text(_name: str, value: str) -> str:
    return value


SETTABLE: Final[Mapping[str, tuple[str, Callable[[str, str], object]]]] = {
    "governed": ("governed", _boolean),
    "api_enabled": ("api_enabled", _boolean),
    "licence": ("licence_state", _licence),
    "licence_reason": ("licence_reason", _text),
    "licence_enforcement_status": ("licence_enforcement_status", _text),
    "license_id": ("license_id", _text),
    "retention_days": ("retention", _days),
}

ASSIGNED_NAMES: Final = {field: name for name, (field, _) in SETTABLE.items()}
"""Names of assignments by the fields of the request."""

DEPLOYMENT_DETAILS: Final = (
    TableColumn("deployment_id", "deployment_id"),
    TableColumn("release", "release"),
    TableColumn("governed", "governed"),
    TableColumn("api_enabled", "api_enabled"),
    TableColumn("licence", "licence.state"),
    TableColumn("licence_reason", "licence.reason"),
    TableColumn("licence_enforcement_status", "licence.enforcement_status"),
    TableColumn("license_id", "licence.license_id"),
    TableColumn("retention_days", "retention_days"),
)

SIZE_COLUMNS: Final = (
    TableColumn("WORKFLOW", "workflow_name", Form.TEXT),
    TableColumn("RUNS", lambda item: f"{item['runs']:,}{'+' if item['has_more_runs'] else ''}", Form.NUMBER),
    TableColumn("OBJECT BYTES", lambda item: f"{item['object_bytes']:,}", Form.NUMBER),
    TableColumn("DATABASE BYTES", lambda item: f"{item['database_bytes']:,}", Form.NUMBER),
)

UPKEEP_DETAILS: Final = (
    TableColumn("runs erased", "runs_erased"),
    TableColumn("idempotency records deleted", "idempotency_records"),
    TableColumn("usage records of earlier releases deleted", "usage_records"),
    TableColumn("batches of usage records deleted", "usage_batches"),
    TableColumn("hourly counts deleted", "usage_hours"),
    TableColumn("uses of models deleted", "model_usage"),
    TableColumn("daily uses of models deleted", "model_usage_days"),
    TableColumn("audit records deleted", "audit_records"),
    TableColumn("sessions deleted", "sessions"),
    TableColumn("counts of failed sign-ins deleted", "sign_in_tries"),
    TableColumn("parts of step logs deleted", "step_log_parts"),
    TableColumn("code folders of agents deleted", "agent_sources"),
    TableColumn("locks of environments deleted", "environment_locks"),
    TableColumn("deleted definitions removed", "deleted_definitions"),
    TableColumn("more to do", "more"),
)
