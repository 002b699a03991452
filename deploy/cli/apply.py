"""`workflow-api apply`: manifests of agents, connectors, environments, knowledge graphs and workflows."""

import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from deploy.cli.client import connected
from deploy.cli.failures import CommandFailed
from deploy.cli.options import DEFAULT_GRPC, Grpc, Json
from deploy.cli.printing import Column, Record, print_json, print_table
from deploy.cli.records import record_of
from workflow_api.v1 import workflows_pb2

STANDARD_INPUT: Final = "-"


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


def read_manifests(names: list[str]) -> list[workflows_pb2.ManifestFile]:
    """Read the files; every file that cannot be read is told at once."""
    manifests = []
    problems = []
    for name in names:
        try:
            manifests.append(_read_manifest(name))
        except OSError as error:
            problems.append({"name": name, "reason": f"cannot be read: {error.strerror}"})
        except UnicodeDecodeError as error:
            problems.append({"name": name, "reason": f"is not UTF-8 at byte {error.start}"})
    if problems:
        raise CommandFailed("A file cannot be read.", code="invalid_request", details=problems)
    return manifests


def _read_manifest(name: str) -> workflows_pb2.ManifestFile:
    if name == STANDARD_INPUT:
        return workflows_pb2.ManifestFile(name="standard input", content=sys.stdin.buffer.read().decode())
    return workflows_pb2.ManifestFile(name=name, content=Path(name).read_bytes().decode())


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
