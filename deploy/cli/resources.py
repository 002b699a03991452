"""`workflow-api agents` and `connectors`, and the commands `list` and `show` of all resources."""

import io
import zipfile
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from deploy.cli.option_names import NAMED_OPTIONS, option_names
from deploy.cli.options import DEFAULT_GRPC, Grpc, Json, Utc
from deploy.cli.output.printing import Form, Record, TableColumn, print_details, print_json, print_line, print_table
from deploy.cli.output.records import PAGE, RawJson, items_of, record_of
from deploy.cli.output.terminal import printable
from deploy.cli.run_outputs import replaced, safe_path, writing
from deploy.client.backend import BackendClient, connected
from deploy.failures import CommandError
from workflow_api.v1 import definitions_pb2, workflows_pb2

Resource = Annotated[str, typer.Argument(metavar="NAME", help="Name or id.")]
Version = Annotated[int | None, typer.Option("--version", help="Version; the newest when not given.")]


def add_reads(command: typer.Typer, kind: "workflows_pb2.ResourceKind.ValueType", name: str) -> None:
    """Adds the commands `list` and `show` for one kind; `name` is its singular for people."""
    add_list(command, kind, name)
    add_show(command, kind, name)


def add_list(command: typer.Typer, kind: "workflows_pb2.ResourceKind.ValueType", singular: str) -> None:
    """Adds the command `list` for one kind."""

    @command.command("list", help=f"List all {singular}s by name.")
    def list_resources(utc: Utc = False, grpc: Grpc = DEFAULT_GRPC, as_json: Json = False) -> None:
        with option_names(NAMED_OPTIONS), connected(grpc) as backend:
            request = workflows_pb2.ListResourcesRequest(kind=kind, page_size=PAGE)
            pages = backend.pages(backend.workflows.ListResources, request)
            items = items_of(pages)
        if as_json:
            print_json({"items": items})
        else:
            columns = [column for column in RESOURCE_COLUMNS if _any_has(items, column)]
            print_table(
                items, columns, none=f"No {singular}: apply a manifest with `workflow-api apply FILE`.", utc=utc
            )


def add_show(command: typer.Typer, kind: "workflows_pb2.ResourceKind.ValueType", singular: str) -> None:
    """Adds the command `show` for one kind."""

    @command.command("show", help=f"Show one version of {_with_article(singular)} with its definition.")
    def show(
        name: Resource, version: Version = None, utc: Utc = False, grpc: Grpc = DEFAULT_GRPC, as_json: Json = False
    ) -> None:
        show_resource(kind, name, version, grpc, utc=utc, as_json=as_json)


def show_resource(
    kind: "workflows_pb2.ResourceKind.ValueType",
    name: str,
    version: int | None,
    grpc: str,
    *,
    utc: bool,
    as_json: bool,
) -> None:
    """Prints one version of a resource, by default the newest, with its definition."""
    with option_names(NAMED_OPTIONS), connected(grpc) as backend:
        request = workflows_pb2.GetResourceRequest(kind=kind, resource=name, version=version)
        record = record_of(backend.call(backend.workflows.GetResource, request))
    if as_json:
        print_json(record)
        return
    print_details(record, [row for row in RESOURCE_DETAILS if row.cell(record) != "-"], utc=utc)
    print()
    print(printable(definition_text(record["definition"]), lines=True))


def print_definition(backend: BackendClient, kind: "workflows_pb2.ResourceKind.ValueType", name: str) -> None:
    """Prints the newest definition of a resource, and below it an empty line."""
    request = workflows_pb2.GetResourceRequest(kind=kind, resource=name)
    record = record_of(backend.call(backend.workflows.GetResource, request))
    print(printable(definition_text(record["definition"]), lines=True))
    used_by = ", ".join(record["used_by"])
    print(printable(f"# used by {used_by}\n" if used_by else "# used by no workflow\n", lines=True))


def definition_text(definition: RawJson) -> str:
    """Returns a definition as YAML, or as JSON if it is nested too deep to parse."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """YAML dumper that writes text of several lines, such as code, as a block."""

    def write_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)

    Dumper.add_representer(str, write_text)
    try:
        value = definition.value()
        if isinstance(value, dict):
            # Fields that begin a manifest; others follow in the order of the alphabet.
            value = {name: value[name] for name in _FIRST if name in value} | value
        return yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=100).rstrip("\n")
    except (ValueError, RecursionError):
        return definition.text


_FIRST: Final = ("name", "type", "store", "description")


def _any_has(items: list[dict[str, Any]], column: TableColumn) -> bool:
    return not items or any(column.cell(item) != "-" for item in items)


def _with_article(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


def _last_test(record: Record) -> object:
    test = record["last_test"]
    return test and f"{'passed' if test['passed'] else 'failed'}: {test['message']}"


def variable_lines(record: Record) -> str:
    """Returns the values of variables with which a version was applied, a line each."""
    return "\n".join(f"{name}={value}" for name, value in sorted(record["variables"].items()))


RESOURCE_COLUMNS: Final = (
    TableColumn("NAME", "name", rank=0),
    TableColumn("TYPE", "type", rank=2),
    TableColumn("VERSION", "version", Form.NUMBER, rank=3),
    TableColumn("STATUS", "status", Form.STATUS, rank=1),
    TableColumn("UPDATED", "updated_at", Form.TIME, rank=4),
    TableColumn("ID", "resource_id", rank=5),
)

RESOURCE_DETAILS: Final = (
    TableColumn("id", "resource_id"),
    TableColumn("name", "name"),
    TableColumn("type", "type"),
    TableColumn("version", "version"),
    TableColumn("version shown", "shown_version"),
    TableColumn("status", "status", Form.STATUS),
    TableColumn("last test", _last_test),
    TableColumn("tested", "last_test.tested_at", Form.TIME),
    TableColumn("used by", "used_by"),
    TableColumn("set", "set_name"),
    TableColumn("variables", variable_lines),
    TableColumn("created", "created_at", Form.TIME),
    TableColumn("updated", "updated_at", Form.TIME),
    TableColumn("deleted", "deleted_at", Form.TIME),
)


connectors_command = typer.Typer()
add_reads(connectors_command, workflows_pb2.RESOURCE_KIND_CONNECTOR, "connector")


@connectors_command.command("test")
def check_connector(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the connector.")],
    utc: Utc = False,
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
        print_details(record, CONNECTOR_DETAILS, utc=utc)
    if not outcome.passed:
        raise typer.Exit(1)


CONNECTOR_DETAILS: Final = (
    TableColumn("connector_id", "connector_id"),
    TableColumn("name", "name"),
    TableColumn("version", "version"),
    TableColumn("passed", "passed"),
    TableColumn("message", "message"),
    TableColumn("tested_at", "tested_at", Form.TIME),
)


agents_command = typer.Typer()
add_list(agents_command, workflows_pb2.RESOURCE_KIND_AGENT, "agent")


@agents_command.command("show")
def show_agent(
    name: Resource,
    version: Version = None,
    download: Annotated[
        Path | None, typer.Option("--download", metavar="DIR", help="Write the files of its code into this folder.")
    ] = None,
    utc: Utc = False,
    grpc: Grpc = DEFAULT_GRPC,
    as_json: Json = False,
) -> None:
    """Show one version of an agent with its definition, or download its code."""
    if download is None:
        show_resource(workflows_pb2.RESOURCE_KIND_AGENT, name, version, grpc, utc=utc, as_json=as_json)
        return
    with option_names({"agent": "NAME", "version": "--version"}), connected(grpc) as backend:
        request = definitions_pb2.GetAgentCodeRequest(agent=name, version=version)
        code = backend.call(backend.definitions.GetAgentCode, request)
    written = _write(code.archive, download)
    if as_json:
        print_json(
            {"id": code.id, "name": code.name, "version": code.version, "files": [str(path) for path in written]}
        )
    else:
        for path in written:
            print_line(str(path))


def _write(archive: bytes, folder: Path) -> list[Path]:
    """Writes the files of a zip below an empty folder, and returns their paths.

    Raises:
        CommandError: the folder is not empty, or a file cannot be written.
    """
    with writing(), zipfile.ZipFile(io.BytesIO(archive)) as opened:
        if folder.exists() and any(folder.iterdir()):
            raise CommandError(f"{folder} must be empty, or not exist: nothing is written over.")
        targets = {name: folder / safe_path(name) for name in opened.namelist()}
        for name, target in targets.items():
            with replaced(target) as file:
                file.write(opened.read(name))
    return list(targets.values())
