"""`workflow-api delete`: workflows and what they use, where nothing uses them."""

from typing import Annotated, Final

import typer

from deploy.cli.option_names import option_names
from deploy.cli.options import DEFAULT_GRPC, Grpc, Json
from deploy.cli.output.printing import print_json, print_line
from deploy.client.backend import connected
from workflow_api.v1 import definitions_pb2

KINDS: Final = {
    "workflow": "Workflow",
    "agent": "Agent",
    "environment": "Environment",
    "connector": "Connector",
    "graph": "KnowledgeGraph",
}
"""Kinds of manifests as the command names them."""

_OPTIONS: Final = {"kind": "KIND", "definition": "NAME"}


def command(
    kind: Annotated[str, typer.Argument(metavar="|".join(KINDS), help="What it is.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name or id.")],
    grpc: Grpc = DEFAULT_GRPC,
    as_json: Json = False,
) -> None:
    """Delete a workflow, agent, environment, connector or knowledge graph, without asking.

    Refused while anything uses it, with the names of what does. Versions that runs name stay readable by the id.
    """
    if kind not in KINDS:
        raise typer.BadParameter(f"must be one of: {', '.join(KINDS)}; {kind!r} is none", param_hint="KIND")
    with option_names(_OPTIONS), connected(grpc) as backend:
        request = definitions_pb2.DeleteDefinitionRequest(kind=KINDS[kind], definition=name)
        deleted = backend.call(backend.definitions.DeleteDefinition, request)
    if as_json:
        print_json({"kind": kind, "name": deleted.name, "id": deleted.id, "deleted": True})
    else:
        print_line(f"The {kind} {deleted.name} ({deleted.id}) is deleted.")
