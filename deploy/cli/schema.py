"""`workflow-api schema`: JSON Schemas for editors."""

import typer

from deploy.cli.options import Json
from deploy.cli.output.printing import print_json

command = typer.Typer()


@command.callback()
def schema() -> None:
    """Keep `manifest` a command of its own; alone, typer would leave its name out."""


@command.command("manifest")
def manifest(as_json: Json = False) -> None:  # noqa: ARG001 - it prints JSON with and without the option
    """Print the JSON Schema (draft 2020-12) of one document of a manifest file.

    Editors with the YAML language server use it by a comment in the first line of a file:
    `# yaml-language-server: $schema=manifest.schema.json`.
    """
    from backend.workflows.manifests.json_schema import manifest_schema

    print_json(manifest_schema())
