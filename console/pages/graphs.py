"""Pages of knowledge graphs: what was published to them, and a box for queries."""

from collections.abc import Mapping
from typing import Any, Final

from console.forms.problems import Problems, problems_of
from console.paging import all_items
from console.rendering.formatting import Badge
from console.resources.details import details_of
from console.resources.graph_answers import MOST_ROWS, Answer, CsvParts, excerpt, read_answer
from console.resources.lookup import (
    GRAPHS,
    PAGE,
    MissingError,
    ResourceVersion,
    missing,
    path_of,
    requested_version,
)
from console.visit import Download, PageResult, View, Visit
from contract.durations import duration_of
from contract.refusals import Refusal
from workflow_api.v1.options_pb2 import TIME_UNIT_SECONDS
from workflow_api.v1.workflows_pb2 import (
    GetKnowledgeGraphPublicationsRequest,
    KnowledgeGraph,
    KnowledgeGraphPublications,
    ListKnowledgeGraphsRequest,
    QueryKnowledgeGraphRequest,
)

FIRST_QUERY: Final = "SELECT ?subject ?predicate ?object\nWHERE { ?subject ?predicate ?object }\nLIMIT 50"
EXAMPLES: Final[Mapping[str, str]] = {
    "Any triples": FIRST_QUERY,
    "Number of triples": "SELECT (COUNT(*) AS ?triples)\nWHERE { GRAPH ?run { ?subject ?predicate ?object } }",
    "Triples by run": (
        "SELECT ?run (COUNT(*) AS ?triples)\nWHERE { GRAPH ?run { ?subject ?predicate ?object } }\n"
        "GROUP BY ?run\nORDER BY DESC(?triples)"
    ),
    "Types": "SELECT ?type (COUNT(DISTINCT ?subject) AS ?subjects)\nWHERE { ?subject a ?type }\nGROUP BY ?type",
}
"""Queries to begin with, by their names."""
LONGEST_QUERY: Final = 100_000

_SECONDS: Final = 30
_WAIT_SECONDS: Final = _SECONDS + 10.0
_MOST_CSV_ROWS: Final = 100_000
_STATES: Final = {
    "published": Badge("published", "good"),
    "pending": Badge("pending", "busy"),
    "removing": Badge("being removed", "busy"),
    "failed": Badge("failed", "bad"),
}
_NO_PROBLEMS: Final[Problems] = {}


async def every_graph(visit: Visit) -> list[KnowledgeGraph]:
    """Returns all knowledge graphs by name."""
    request = ListKnowledgeGraphsRequest(page_size=PAGE)
    return await all_items(visit.services, "WorkflowsService/ListKnowledgeGraphs", request)


async def show_list(visit: Visit) -> PageResult:
    """Lists knowledge graphs with how much was published to each."""
    rows = [(each, path_of(GRAPHS, each.graph_id)) for each in await every_graph(visit)]
    return View("resources/graphs.html", {"rows": rows})


async def show(visit: Visit) -> PageResult:
    """Shows a knowledge graph with its query box."""
    try:
        shown = await requested_version(visit, GRAPHS)
    except MissingError as error:
        return missing(GRAPHS, error)
    return await _view(visit, shown, EXAMPLES.get(visit.query.get("example", ""), FIRST_QUERY))


async def query(visit: Visit) -> PageResult:
    """Evaluates a query; the answer is shown below it, or downloaded as CSV."""
    try:
        shown = await requested_version(visit, GRAPHS)
    except MissingError as error:
        return missing(GRAPHS, error)
    text = visit.sent("query")
    as_csv = bool(visit.sent("csv"))
    request = QueryKnowledgeGraphRequest(
        name=shown.answer.resource.name,
        query=text,
        # One more than are shown, to know whether there are more.
        limit=_MOST_CSV_ROWS if as_csv else MOST_ROWS + 1,
        timeout=duration_of(_SECONDS, TIME_UNIT_SECONDS),
    )
    messages = visit.services.stream("WorkflowsService/QueryKnowledgeGraph", request, _WAIT_SECONDS)
    try:
        if as_csv:
            parts = CsvParts(messages)
            await parts.open()
            return Download(parts, f"{shown.answer.resource.name}.csv", "text/csv")
        return await _view(visit, shown, text, answer=await read_answer(messages))
    except Refusal as refusal:
        return await _view(visit, shown, text, problems=_problems(refusal))


def _problems(refusal: Refusal) -> Problems:
    """Returns why a query was refused, at its field, where the store does not answer too."""
    return {"query": refusal.message} if refusal.code == "runtime_error" else problems_of(refusal)


async def _view(
    visit: Visit, shown: ResourceVersion, text: str, *, answer: Answer | None = None, problems: Problems = _NO_PROBLEMS
) -> View:
    publications: KnowledgeGraphPublications = await visit.services.call(
        "WorkflowsService/GetKnowledgeGraphPublications",
        GetKnowledgeGraphPublicationsRequest(name=shown.answer.resource.name),
    )
    graph = next(
        (each for each in await every_graph(visit) if each.graph_id == shown.answer.resource.resource_id), None
    )
    problem = "; ".join(problems.values())
    context: dict[str, Any] = {
        "graph": graph,
        "publications": [(each, _STATES.get(each.state, Badge(each.state))) for each in publications.items],
        "examples": list(EXAMPLES),
        "query": text,
        "problem": problem,
        "excerpt": excerpt(text, problem),
        "answer": answer,
        "most_rows": MOST_ROWS,
        "most_csv_rows": _MOST_CSV_ROWS,
        "seconds": _SECONDS,
        "longest_query": LONGEST_QUERY,
    }
    return View("resources/graph.html", {**await details_of(visit, shown), **context}, status=400 if problem else 200)
