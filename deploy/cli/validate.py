"""`workflow-api validate`: checks manifests by the rules of `apply`, without a server."""

from collections.abc import Iterable
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
        typer.Option(
            "--allow-missing", help="Accept names that no file has, which may be applied already or come later."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Check manifests without a server, by the rules of `apply`, and print every problem.

    Every agent, environment, connector and knowledge graph that a workflow names must be in one of the files. What
    keeps a workflow from being ready, such as a step without an agent, is accepted as by `apply`, and listed.
    """
    loaded = check_texts(read_texts(files), complete=not allow_missing)
    if loaded.problems:
        raise refused(loaded.problems)
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


def _named(places: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"name": place, "reason": reason} for place, reason in places]
