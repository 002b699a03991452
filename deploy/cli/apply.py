"""`workflow-api apply`: manifests of agents, connectors, environments, knowledge graphs and workflows."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Final

import typer

from deploy.cli.options import DEFAULT_GRPC, Grpc, Json
from deploy.cli.output.printing import Column, Record, print_json, print_line, print_table
from deploy.cli.output.records import record_of
from deploy.client.backend import connected
from deploy.client.manifests import read_manifests
from workflow_api.v1 import workflows_pb2

LOCKING_SECONDS: Final = 600.0
"""Packages of environments are resolved during the call."""


def command(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="YAML files; `-` reads standard input.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Change nothing; print what would change, version by version.")
    ] = False,
    upgrade_packages: Annotated[
        bool, typer.Option("--upgrade-packages", help="Lock the packages of environments to their newest releases.")
    ] = False,
    grpc: Grpc = DEFAULT_GRPC,
    as_json: Json = False,
) -> None:
    """Apply manifests, all of them or nothing; a new version becomes the active one.

    An agent or environment that changes makes a new version of each workflow that uses it.
    """
    manifests = read_manifests(files)
    with connected(grpc) as backend:
        request = workflows_pb2.ApplyManifestsRequest(
            files=manifests, dry_run=dry_run, upgrade_packages=upgrade_packages
        )
        items = record_of(backend.call(backend.workflows.ApplyManifests, request, LOCKING_SECONDS))["items"]
    if as_json:
        print_json({"items": items})
        return
    print_applied(items, dry_run=dry_run)


def print_applied(items: Sequence[Record], *, dry_run: bool) -> None:
    """Prints a table of what became of definitions, or would become of them, and remarks below it."""
    print_table(items, PLANNED_COLUMNS if dry_run else APPLIED_COLUMNS, none="The files hold no document.")
    for line in _remarks(items):
        print_line(line)
    if dry_run:
        print_line("")
        print_line("Nothing was changed: this was a dry run.")


def _remarks(items: Sequence[Record]) -> Iterator[str]:
    """Yields how definitions change, what is not ready, and warnings, with a blank line before each kind."""
    for item in items:
        if item["difference"]:
            yield from ("", *item["difference"].splitlines())
    for title, field in (("Not ready:", "not_ready"), ("Warnings:", "warnings")):
        reasons = [f"  {item['kind']} {item['name']}: {reason}" for item in items for reason in item[field]]
        if reasons:
            yield from ("", title, *reasons)


def _outcome(item: Record) -> str:
    changed = ", ".join(item["changed_resources"])
    return f"{item['outcome']} ({changed} changed)" if changed else str(item["outcome"])


def _versions(item: Record) -> str:
    before, after = item["previous_version"], item["version"]
    return str(after) if before in {None, after} else f"{before} → {after}"


def _plan(item: Record) -> str:
    outcome = _outcome(item)
    return outcome if item["outcome"] == "unchanged" else f"would be {outcome}"


APPLIED_COLUMNS: Final = (
    Column("KIND", "kind"),
    Column("NAME", "name"),
    Column("VERSION", "version"),
    Column("OUTCOME", _outcome),
    Column("ID", "id"),
)

PLANNED_COLUMNS: Final = (
    Column("KIND", "kind"),
    Column("NAME", "name"),
    Column("VERSION", _versions),
    Column("OUTCOME", _plan),
)
