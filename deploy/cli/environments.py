"""`workflow-api environments`: environments of steps, and the builds of their packages."""

import time
from typing import Annotated, Final

import typer

from deploy.cli import environment_roots
from deploy.cli.option_names import NAMED_OPTIONS, option_names
from deploy.cli.options import DEFAULT_GRPC, Grpc, Json, Utc
from deploy.cli.output.printing import Form, Record, TableColumn, print_details, print_json, print_table
from deploy.cli.output.records import PAGE, items_of, record_of
from deploy.cli.resources import print_definition
from deploy.client.backend import BackendClient, connected
from workflow_api.v1 import environments_pb2, workflows_pb2

_POLL_SECONDS: Final = 0.5
_BUILDING: Final = environments_pb2.ENVIRONMENT_BUILD_STATE_BUILDING
_FAILED: Final = environments_pb2.ENVIRONMENT_BUILD_STATE_FAILED

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the environment.")]

command = typer.Typer()
command.add_typer(
    environment_roots.command,
    name="roots",
    help="Add, list and remove this machine's roots: system libraries for environments.",
    no_args_is_help=True,
)


@command.command("list")
def list_environments(grpc: Grpc = DEFAULT_GRPC, as_json: Json = False) -> None:
    """List all environments by name, with the state of their packages."""
    with option_names(NAMED_OPTIONS), connected(grpc) as backend:
        request = environments_pb2.ListEnvironmentBuildsRequest(page_size=PAGE)
        pages = backend.pages(backend.environments.ListEnvironmentBuilds, request)
        items = items_of(pages)
    if as_json:
        print_json({"items": items})
    else:
        print_table(items, COLUMNS, none="No environment: apply a manifest with `workflow-api apply FILE`.")


@command.command("show")
def show(name: Name, utc: Utc = False, grpc: Grpc = DEFAULT_GRPC, as_json: Json = False) -> None:
    """Show an environment's definition and packages, and what each machine has made of them."""
    with option_names(NAMED_OPTIONS), connected(grpc) as backend:
        request = environments_pb2.GetEnvironmentBuildRequest(name=name)
        build = backend.call(backend.environments.GetEnvironmentBuild, request)
        if not as_json:
            print_definition(backend, workflows_pb2.RESOURCE_KIND_ENVIRONMENT, name)
    _print(build, as_json=as_json, utc=utc)


@command.command("build")
def build(
    name: Name,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Return before a machine has built them.")] = False,
    grpc: Grpc = DEFAULT_GRPC,
    as_json: Json = False,
) -> None:
    """Build an environment's packages now, also where that failed before.

    Exits with 1 when they could not be built.
    """
    with option_names(NAMED_OPTIONS), connected(grpc) as backend:
        request = environments_pb2.BuildEnvironmentRequest(name=name)
        made = backend.call(backend.environments.BuildEnvironment, request)
        if not no_wait and made.state == _BUILDING:
            made = _until_built(backend, name)
    _print(made, as_json=as_json)
    if made.state == _FAILED:
        raise typer.Exit(1)


def _until_built(backend: BackendClient, name: str) -> environments_pb2.EnvironmentBuild:
    typer.echo(f"Environment '{name}' is being built.", err=True)
    request = environments_pb2.GetEnvironmentBuildRequest(name=name)
    while True:
        made = backend.call(backend.environments.GetEnvironmentBuild, request)
        if made.state != _BUILDING:
            return made
        time.sleep(_POLL_SECONDS)


def _print(made: environments_pb2.EnvironmentBuild, *, as_json: bool, utc: bool = False) -> None:
    record = record_of(made)
    if as_json:
        print_json(record)
        return
    print_details(record, DETAILS)
    if record["machines"]:
        print()
        print_table(record["machines"], MACHINE_COLUMNS, none="", utc=utc)


def _state(record: Record) -> str:
    return str(record["state"]).replace("_", " ")


def _megabytes(record: Record) -> str | None:
    return None if record["bytes"] is None else f"{record['bytes'] / 2**20:,.1f} MiB"


COLUMNS: Final = (
    TableColumn("NAME", "name", rank=0),
    TableColumn("VERSION", "version", Form.NUMBER, rank=3),
    TableColumn("STATUS", "status", Form.STATUS, rank=1),
    TableColumn("PACKAGES", _state, Form.STATUS, rank=0),
    TableColumn("REQUIREMENTS", "packages", Form.TEXT, rank=2),
)

DETAILS: Final = (
    TableColumn("environment_id", "environment_id"),
    TableColumn("name", "name"),
    TableColumn("version", "version"),
    TableColumn("status", "status"),
    TableColumn("packages", "packages"),
    TableColumn("locked", "locked"),
    TableColumn("lock_digest", "lock_digest"),
    TableColumn("interpreter", "interpreter"),
    TableColumn("root", "root"),
    TableColumn("root_digest", "root_digest"),
    TableColumn("state", _state),
    TableColumn("message", "message"),
)

MACHINE_COLUMNS: Final = (
    TableColumn("MACHINE", "machine", rank=0),
    TableColumn("STATE", _state, Form.STATUS, rank=0),
    TableColumn("SIZE", _megabytes, Form.NUMBER, rank=3),
    TableColumn("SINCE", "updated_at", Form.TIME, rank=2),
    TableColumn("MESSAGE", "message", Form.TEXT, rank=1),
)
