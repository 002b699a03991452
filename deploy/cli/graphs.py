"""`workflow-api graphs`: knowledge graphs and queries."""

import json
from collections.abc import Iterator
from typing import Annotated, Any, Final

import typer

from contract.times import duration_of
from deploy.cli.option_names import LIST_OPTIONS, option_names
from deploy.cli.options import DEFAULT_GRPC, Grpc, Json
from deploy.cli.output.printing import Form, TableColumn, print_json, print_line, print_table
from deploy.cli.output.records import PAGE, RawJson, items_of
from deploy.cli.resources import add_show
from deploy.client.backend import connected
from workflow_api.v1 import workflows_pb2
from workflow_api.v1.options_pb2 import TIME_UNIT_SECONDS

_EXTRA_SECONDS: Final = 10

command = typer.Typer()
add_show(command, workflows_pb2.RESOURCE_KIND_KNOWLEDGE_GRAPH, "knowledge graph")


@command.command("list")
def list_graphs(grpc: Grpc = DEFAULT_GRPC, as_json: Json = False) -> None:
    """List all knowledge graphs by name, with how many runs were published to each."""
    with connected(grpc) as backend:
        request = workflows_pb2.ListKnowledgeGraphsRequest(page_size=PAGE)
        pages = backend.pages(backend.workflows.ListKnowledgeGraphs, request)
        items = items_of(pages)
    if as_json:
        print_json({"items": items})
    else:
        print_table(items, GRAPH_COLUMNS, none="No knowledge graph: apply a manifest with `workflow-api apply FILE`.")


@command.command("query")
def query(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the knowledge graph.")],
    text: Annotated[str, typer.Argument(metavar="SPARQL", help="A SELECT, ASK, CONSTRUCT or DESCRIBE query.")],
    limit: Annotated[int | None, typer.Option("--limit", help="Most rows or triples. Default: 1,000.")] = None,
    timeout: Annotated[int | None, typer.Option("--timeout", help="Most seconds. Default: 30.")] = None,
    grpc: Grpc = DEFAULT_GRPC,
    as_json: Json = False,
) -> None:
    """Query everything that was published to a knowledge graph.

    Prints rows as a table, or with `--json` as SPARQL 1.1 results in JSON; triples as N-Triples, or as a list.
    """
    request = workflows_pb2.QueryKnowledgeGraphRequest(
        name=name,
        query=text,
        limit=limit,
        timeout=None if timeout is None else duration_of(timeout, TIME_UNIT_SECONDS),
    )
    with option_names(LIST_OPTIONS), connected(grpc) as backend:
        seconds = None if timeout is None else timeout + _EXTRA_SECONDS
        parts = list(backend.stream(backend.workflows.QueryKnowledgeGraph, request, seconds))
    form = parts[0].form
    truncated = parts[-1].truncated
    if as_json:
        print_json({**_as_json(form, parts), "truncated": truncated})
        return
    if form == "ask":
        print("yes" if parts[0].boolean else "no")
    elif form == "construct":
        for line in (line for part in parts for line in part.triples):
            print_line(line)
    else:
        columns = [TableColumn(name, _cell(name), Form.TEXT) for name in parts[0].variables]
        print_table(list(_rows(parts)), columns, none="No row.")
    if truncated:
        typer.echo("There is more: raise --limit or narrow the query.", err=True)


def _as_json(form: str, parts: list[workflows_pb2.KnowledgeGraphAnswer]) -> dict[str, Any]:
    match form:
        case "ask":
            return {"head": {}, "boolean": parts[0].boolean}
        case "construct":
            return {"triples": [line for part in parts for line in part.triples]}
    return {
        "head": {"vars": list(parts[0].variables)},
        "results": {"bindings": [RawJson(row) for part in parts for row in part.rows]},
    }


def _rows(parts: list[workflows_pb2.KnowledgeGraphAnswer]) -> Iterator[dict[str, Any]]:
    for part in parts:
        for row in part.rows:
            yield json.loads(row)


def _cell(name: str) -> Any:
    def read(row: Any) -> Any:
        return row.get(name, {}).get("value")

    return read


GRAPH_COLUMNS: Final = (
    TableColumn("GRAPH ID", "graph_id", rank=5),
    TableColumn("NAME", "name", rank=0),
    TableColumn("STORE", "store", rank=3),
    TableColumn("VERSION", "version", Form.NUMBER, rank=4),
    TableColumn("RUNS", "runs", Form.NUMBER, rank=1),
    TableColumn("PENDING", "pending", Form.NUMBER, rank=2),
)
