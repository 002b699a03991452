"""`workflow-api apply`, `diff`, `delete`, `validate` and `schema`: manifests, on a backend or offline."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer

from deploy.cli.option_names import option_names
from deploy.cli.options import DEFAULT_GRPC, Grpc, Json
from deploy.cli.output.printing import Record, TableColumn, print_json, print_line, print_table
from deploy.cli.output.records import record_of
from deploy.cli.variable_options import VariableFiles, VariableOptions, given_variables, warn_of_unused
from deploy.client.backend import connected
from deploy.client.manifests import check_texts, read_manifests, read_texts, refused
from workflow_api.v1 import definitions_pb2, workflows_pb2

LOCKING_SECONDS: Final = 600.0
"""Seconds of a call that resolves packages of environments."""

KINDS: Final = {
    "workflow": "Workflow",
    "agent": "Agent",
    "environment": "Environment",
    "connector": "Connector",
    "graph": "KnowledgeGraph",
}
"""Kinds of manifests as the command names them."""

_APPLY_OPTIONS: Final = {"set_name": "--set", "prune": "--prune", "take_over": "--take-over"}
_DELETE_OPTIONS: Final = {"kind": "KIND", "definition": "NAME"}

schema_command = typer.Typer()


DIFFERENCES: Final = 3
"""Exit code of `diff` where `apply` would change anything."""

ManifestFiles = Annotated[list[str], typer.Argument(metavar="FILE...", help="YAML files; `-` reads standard input.")]
SetName = Annotated[
    str | None, typer.Option("--set", metavar="NAME", help="Set that owns every document of the files afterwards.")
]
Prune = Annotated[bool, typer.Option("--prune", help="Delete what the set owns and the files do not hold.")]
TakeOver = Annotated[
    bool, typer.Option("--take-over", help="Apply documents that other sets own, too, and print what changes.")
]


def apply_command(
    files: ManifestFiles,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Change nothing; print what would change, version by version.")
    ] = False,
    upgrade_packages: Annotated[
        bool, typer.Option("--upgrade-packages", help="Lock the packages of environments to their newest releases.")
    ] = False,
    set_name: SetName = None,
    prune: Prune = False,
    take_over: TakeOver = False,
    variable_files: VariableFiles = None,
    variables: VariableOptions = None,
    grpc: Grpc = DEFAULT_GRPC,
    as_json: Json = False,
) -> None:
    """Apply manifests, all of them or nothing; a new version becomes the active one.

    An agent or environment that changes makes a new version of each workflow that uses it. What a set owns only an
    apply with its name changes.
    """
    applied = _Application(files, set_name, prune, take_over, variable_files, variables, upgrade_packages)
    _print_items(_apply(applied, grpc, dry_run=dry_run), dry_run=dry_run, as_json=as_json)


def diff_command(
    files: ManifestFiles,
    set_name: SetName = None,
    prune: Prune = False,
    take_over: TakeOver = False,
    variable_files: VariableFiles = None,
    variables: VariableOptions = None,
    grpc: Grpc = DEFAULT_GRPC,
    as_json: Json = False,
) -> None:
    """Print what `apply` would change, and change nothing; exit with 3 where it would change anything."""
    items = _apply(_Application(files, set_name, prune, take_over, variable_files, variables), grpc, dry_run=True)
    _print_items(items, dry_run=True, as_json=as_json)
    if any(item["outcome"] != "unchanged" or item["previous_set"] != item["set_name"] for item in items):
        raise typer.Exit(DIFFERENCES)


class _Application(NamedTuple):
    files: list[str]
    set_name: str | None
    prune: bool
    take_over: bool
    variable_files: list[Path] | None
    variables: list[str] | None
    upgrade_packages: bool = False


def _apply(applied: _Application, grpc: str, *, dry_run: bool) -> list[Record]:
    if applied.prune and applied.set_name is None:
        raise typer.BadParameter("must have --set beside it: what a set owns is pruned", param_hint="--prune")
    given = given_variables(applied.variable_files, applied.variables)
    manifests = read_manifests(applied.files, given.values)
    with option_names(_APPLY_OPTIONS), connected(grpc) as backend:
        request = workflows_pb2.ApplyManifestsRequest(
            files=manifests,
            dry_run=dry_run,
            upgrade_packages=applied.upgrade_packages,
            set_name=applied.set_name,
            prune=applied.prune,
            take_over=applied.take_over,
            variables=given.texts,
            text_variables=given.quoted,
        )
        answer = backend.call(backend.workflows.ApplyManifests, request, LOCKING_SECONDS)
    warn_of_unused(given, answer.used_variables)
    items: list[Record] = record_of(answer)["items"]
    return items


def _print_items(items: Sequence[Record], *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        print_json({"items": items})
    else:
        print_applied(items, dry_run=dry_run)


def print_applied(items: Sequence[Record], *, dry_run: bool) -> None:
    """Prints a table of the outcome of each definition, planned with `dry_run`, and remarks below it.

    The table has a column with sets where any owns or owned one of the definitions.
    """
    columns = PLANNED_COLUMNS if dry_run else APPLIED_COLUMNS
    if any(item["set_name"] or item["previous_set"] for item in items):
        columns = (*columns, TableColumn("SET", _sets))
    print_table(items, columns, none="The files hold no document.")
    for line in _remarks(items):
        print_line(line)
    if dry_run:
        print_line("")
        print_line("Nothing was changed: this was a dry run.")


def _outcome(item: Record) -> str:
    changed = ", ".join(item["changed_resources"])
    return f"{item['outcome']} ({changed} changed)" if changed else str(item["outcome"])


APPLIED_COLUMNS: Final = (
    TableColumn("KIND", "kind"),
    TableColumn("NAME", "name"),
    TableColumn("VERSION", "version"),
    TableColumn("OUTCOME", _outcome),
    TableColumn("ID", "id"),
)


def _sets(item: Record) -> str | None:
    before, after = item["previous_set"], item["set_name"]
    return after if before == after or item["outcome"] == "created" else f"{before or '-'} → {after or '-'}"


def _versions(item: Record) -> str:
    before, after = item["previous_version"], item["version"]
    return str(after) if before in {None, after} else f"{before} → {after}"


def _plan(item: Record) -> str:
    outcome = _outcome(item)
    return outcome if item["outcome"] == "unchanged" else f"would be {outcome}"


PLANNED_COLUMNS: Final = (
    TableColumn("KIND", "kind"),
    TableColumn("NAME", "name"),
    TableColumn("VERSION", _versions),
    TableColumn("OUTCOME", _plan),
)


def delete_command(
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
    with option_names(_DELETE_OPTIONS), connected(grpc) as backend:
        request = definitions_pb2.DeleteDefinitionRequest(kind=KINDS[kind], definition=name)
        deleted = backend.call(backend.definitions.DeleteDefinition, request)
    if as_json:
        print_json({"kind": kind, "name": deleted.name, "id": deleted.id, "deleted": True})
    else:
        print_line(f"The {kind} {deleted.name} ({deleted.id}) is deleted.")


def validate_command(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="YAML files; `-` reads standard input.")],
    allow_missing: Annotated[
        bool,
        typer.Option(
            "--allow-missing", help="Accept names that no file has, which may be applied already or come later."
        ),
    ] = False,
    variable_files: VariableFiles = None,
    variables: VariableOptions = None,
    as_json: Json = False,
) -> None:
    """Check manifests without a server, by the rules of `apply`, and print every problem.

    Every agent, environment, connector and knowledge graph that a workflow names must be in one of the files. What
    keeps a workflow from being ready, such as a step without an agent, is accepted as by `apply`, and listed.
    """
    given = given_variables(variable_files, variables)
    loaded = check_texts(read_texts(files, given.values), given.values, complete=not allow_missing)
    if loaded.problems:
        raise refused(loaded.problems)
    warn_of_unused(given, loaded.used)
    if as_json:
        documents = [
            {"kind": one.kind, "name": one.name, "file": one.file, "line": one.line} for one in loaded.manifests
        ]
        print_json({"items": documents, "missing": _named(loaded.missing), "not_ready": _named(loaded.not_ready)})
        return
    for title, places in (
        ("Accepted, for it may be applied already or come later:", loaded.missing),
        ("Not ready:", loaded.not_ready),
    ):
        if places:
            print_line(title)
        for place, reason in places:
            print_line(f"  {place}: {reason}")
    count = len(loaded.manifests)
    print_line(f"{count} document{'' if count == 1 else 's'} checked: no problem found.")


@schema_command.callback()
def schema() -> None:
    """Keep `manifest` a command of its own; alone, typer would leave its name out."""


@schema_command.command("manifest")
def manifest(as_json: Json = False) -> None:  # noqa: ARG001 - it prints JSON with and without the option
    """Print the JSON Schema (draft 2020-12) of one document of a manifest file.

    Editors with the YAML language server use it by a comment in the first line of a file:
    `# yaml-language-server: $schema=manifest.schema.json`.
    """
    from backend.services.workflows.manifests.kinds import manifest_schema

    print_json(manifest_schema())


def _remarks(items: Sequence[Record]) -> Iterator[str]:
    """Yields changes of definitions, obstacles to readiness, and warnings, with a blank line before each kind."""
    for item in items:
        if item["difference"]:
            yield from ("", *item["difference"].splitlines())
    for title, field in (("Not ready:", "not_ready"), ("Warnings:", "warnings")):
        reasons = [f"  {item['kind']} {item['name']}: {reason}" for item in items for reason in item[field]]
        if reasons:
            yield from ("", title, *reasons)


def _named(places: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"name": place, "reason": reason} for place, reason in places]
