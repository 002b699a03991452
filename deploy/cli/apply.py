"""`workflow-api apply`: manifests of agents, connectors, environments, knowledge graphs and workflows."""

from typing import Annotated, Final

import typer

from deploy.cli.options import DEFAULT_GRPC, Grpc, Json
from deploy.cli.printing import Column, Record, print_json, print_table
from deploy.cli.records import record_of
from deploy.client.backend import connected
from deploy.client.manifests import read_manifests
from workflow_api.v1 import workflows_pb2


def command(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="YAML files; `-` reads standard input.")],
    grpc: Grpc = DEFAULT_GRPC,
    as_json: Json = False,
) -> None:
    """Apply manifests, all of them or nothing; a new version becomes the active one.

    An agent or environment that changes makes a new version of each workflow that uses it.
    """
    manifests = read_manifests(files)
    with connected(grpc) as backend:
        request = workflows_pb2.ApplyManifestsRequest(files=manifests)
        items = record_of(backend.call(backend.workflows.ApplyManifests, request))["items"]
    if as_json:
        print_json({"items": items})
    else:
        print_table(items, APPLIED_COLUMNS, none="The files hold no document.")


def _outcome(item: Record) -> str:
    changed = ", ".join(item["changed_resources"])
    return f"{item['outcome']} ({changed} changed)" if changed else str(item["outcome"])


APPLIED_COLUMNS: Final = (
    Column("KIND", "kind"),
    Column("NAME", "name"),
    Column("VERSION", "version"),
    Column("OUTCOME", _outcome),
    Column("ID", "id"),
)
