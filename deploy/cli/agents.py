"""`workflow-api agents`: what does the work of steps."""

import io
import zipfile
from pathlib import Path
from typing import Annotated

import typer

from deploy.cli.option_names import option_names
from deploy.cli.options import DEFAULT_GRPC, Grpc, Json, Utc
from deploy.cli.output.printing import print_json, print_line
from deploy.cli.resources import Resource, Version, add_list, show_resource
from deploy.cli.run_outputs import replaced, safe_path, writing
from deploy.client.backend import connected
from deploy.failures import CommandError
from workflow_api.v1 import definitions_pb2, workflows_pb2

command = typer.Typer()
add_list(command, workflows_pb2.RESOURCE_KIND_AGENT, "agent")


@command.command("show")
def show(
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
    """Writes the files of a zip below a folder that has nothing in it yet, and returns them.

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
