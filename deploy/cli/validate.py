"""`workflow-api validate`: checks manifests by the rules of `apply`, without a server."""

from typing import Annotated

import typer

from deploy.cli.options import Json
from deploy.cli.output.printing import print_json, print_line
from deploy.client.manifests import read_texts
from deploy.client.validation import check_texts, refused


def command(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="YAML files; `-` reads standard input.")],
    allow_missing: Annotated[
        bool,
        typer.Option("--allow-missing", help="Accept what the files lack: it may be applied already or come later."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Check manifests without a server, by the rules of `apply`, and print every problem.

    Every agent, environment, connector and knowledge graph that a workflow names must be in one of the files, and every
    step must have an agent or be an approval.
    """
    loaded = check_texts(read_texts(files), complete=not allow_missing)
    if loaded.problems:
        raise refused(loaded.problems)
    if as_json:
        documents = [
            {"kind": one.kind, "name": one.name, "file": one.file, "line": one.line} for one in loaded.manifests
        ]
        missing = [{"name": place, "reason": reason} for place, reason in loaded.missing]
        print_json({"items": documents, "missing": missing})
        return
    if loaded.missing:
        print_line("Accepted, for it may be applied already or come later:")
    for place, reason in loaded.missing:
        print_line(f"  {place}: {reason}")
    count = len(loaded.manifests)
    print_line(f"{count} document{'' if count == 1 else 's'} checked: no problem found.")
