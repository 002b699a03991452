"""`workflow-api connectors`: connections to object storage."""

from typing import Annotated, Final

import typer

from deploy.cli.option_names import NAMED_OPTIONS, option_names
from deploy.cli.options import DEFAULT_GRPC, Grpc, Json
from deploy.cli.output.printing import Column, Form, print_details, print_json
from deploy.cli.output.records import record_of
from deploy.cli.resources import add_reads
from deploy.client.backend import connected
from workflow_api.v1 import workflows_pb2

command = typer.Typer()
add_reads(command, workflows_pb2.RESOURCE_KIND_CONNECTOR, "connector")


@command.command("test")
def check(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the connector.")],
    grpc: Grpc = DEFAULT_GRPC,
    as_json: Json = False,
) -> None:
    """List objects with its credentials and record the outcome.

    Exits with 1 when the test did not pass.
    """
    with option_names(NAMED_OPTIONS), connected(grpc) as backend:
        outcome = backend.call(backend.workflows.TestConnector, workflows_pb2.TestConnectorRequest(name=name))
    record = record_of(outcome)
    if as_json:
        print_json(record)
    else:
        print_details(record, CONNECTOR_DETAILS)
    if not outcome.passed:
        raise typer.Exit(1)


CONNECTOR_DETAILS: Final = (
    Column("connector_id", "connector_id"),
    Column("name", "name"),
    Column("version", "version"),
    Column("passed", "passed"),
    Column("message", "message"),
    Column("tested_at", "tested_at", Form.TIME),
)
