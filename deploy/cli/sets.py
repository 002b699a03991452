"""`workflow-api sets`: the sets that own workflows and resources."""

from collections import Counter
from typing import Final

import typer

from deploy.cli.manifests import KINDS
from deploy.cli.options import DEFAULT_GRPC, Grpc, Json
from deploy.cli.output.printing import Form, Record, TableColumn, print_json, print_table
from deploy.cli.output.records import PAGE, items_of
from deploy.client.backend import connected
from workflow_api.v1 import definitions_pb2

command = typer.Typer()


@command.callback()
def sets() -> None:
    """Keep `list` a command of its own; alone, typer would leave its name out."""


@command.command("list")
def list_sets(grpc: Grpc = DEFAULT_GRPC, as_json: Json = False) -> None:
    """List the sets by name, with how much each owns; with --json also what."""
    with connected(grpc) as backend:
        pages = backend.pages(backend.definitions.ListSets, definitions_pb2.ListSetsRequest(page_size=PAGE))
        items = items_of(pages)
    if as_json:
        print_json({"items": items})
    else:
        print_table(items, SET_COLUMNS, none="No set: apply manifests with `workflow-api apply --set NAME FILE`.")


def _count(kind: str) -> TableColumn:
    """Returns the column with the number of definitions of a kind that a set owns."""

    def count(record: Record) -> int:
        return Counter(member["kind"] for member in record["members"])[KINDS[kind]]

    return TableColumn(f"{kind.upper()}S", count, Form.NUMBER)


SET_COLUMNS: Final = (TableColumn("NAME", "name"), *map(_count, KINDS))
