"""Pages of knowledge graphs: the list, one graph, and the answer to a query as a bounded table or as CSV."""

import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from console.forms.urlencoded import Problems, problems_of
from console.paging import all_items
from console.rendering.exports import csv_text
from console.rendering.formatting import Badge
from console.resources import (
    GRAPHS,
    PAGE,
    MissingError,
    ResourceVersion,
    details_of,
    missing,
    path_of,
    requested_version,
)
from console.visit import FileDownload, PageResult, View, Visit
from contract.channel import Messages
from contract.refusals import Refusal
from contract.times import duration_of
from workflow_api.v1.options_pb2 import TIME_UNIT_SECONDS
from workflow_api.v1.workflows_pb2 import (
    GetKnowledgeGraphPublicationsRequest,
    KnowledgeGraph,
    KnowledgeGraphAnswer,
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

MOST_ROWS: Final = 200
_CELL_CHARS: Final = 300
_MOST_CHARS: Final = 60_000
_TAGS_OF_CELL: Final = 40
"""Characters of a cell beside its text."""
_TRIPLE: Final = ("Triple",)
_PLACE: Final = re.compile(r"error at (\d{1,6}):(\d{1,6})")


async def every_graph(visit: Visit) -> list[KnowledgeGraph]:
    """Returns all knowledge graphs by name."""
    request = ListKnowledgeGraphsRequest(page_size=PAGE)
    return await all_items(visit.services, "WorkflowsService/ListKnowledgeGraphs", request)


async def show_list(visit: Visit) -> PageResult:
    """Lists knowledge graphs with the number of triples published to each."""
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
    """Evaluates a query; shows the answer below the query, or sends it as CSV."""
    try:
        shown = await requested_version(visit, GRAPHS)
    except MissingError as error:
        return missing(GRAPHS, error)
    text = visit.sent("query")
    as_csv = bool(visit.sent("csv"))
    request = QueryKnowledgeGraphRequest(
        name=shown.answer.resource.name,
        query=text,
        # One row more than is shown, to know whether more exist.
        limit=_MOST_CSV_ROWS if as_csv else MOST_ROWS + 1,
        timeout=duration_of(_SECONDS, TIME_UNIT_SECONDS),
    )
    messages = visit.services.stream("WorkflowsService/QueryKnowledgeGraph", request, _WAIT_SECONDS)
    try:
        if as_csv:
            parts = CsvParts(messages)
            await parts.open()
            return FileDownload(parts, f"{shown.answer.resource.name}.csv", "text/csv")
        return await _view(visit, shown, text, answer=await read_answer(messages))
    except Refusal as refusal:
        return await _view(visit, shown, text, problems=_problems(refusal))


class ResultTable(NamedTuple):
    """First rows of an answer; `cut` is True where more exist."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    cut: bool


class GraphAnswer(NamedTuple):
    """Answer to a query: `yes` for ASK, a table for other queries."""

    yes: bool | None
    table: ResultTable | None


async def read_answer(messages: Messages) -> GraphAnswer:
    """Returns the part of an answer that fits on a page.

    Raises:
        Refusal: as the service refused.
    """
    columns: Sequence[str] = _TRIPLE
    rows: list[Sequence[str]] = []
    chars, cut = 0, False
    try:
        async for message in messages:
            part = _part(message)
            if part.HasField("boolean"):
                return GraphAnswer(part.boolean, None)
            if part.form == "select":
                columns = list(part.variables)
            for row in _rows(part, columns):
                shown = [text if len(text) <= _CELL_CHARS else text[: _CELL_CHARS - 1] + "…" for text in row]
                chars += sum(len(text) + _TAGS_OF_CELL for text in shown)
                if len(rows) == MOST_ROWS or chars > _MOST_CHARS:
                    return GraphAnswer(None, ResultTable(columns, rows, cut=True))
                rows.append(shown)
            cut = cut or part.truncated
    finally:
        await messages.aclose()
    return GraphAnswer(None, ResultTable(columns, rows, cut))


class CsvParts:
    """Parts of a whole answer as CSV; the first part has the header row."""

    def __init__(self, messages: Messages) -> None:
        self._messages = messages
        self._columns: Sequence[str] = ()
        self._first = b""

    async def open(self) -> None:
        """Waits for the beginning of the answer.

        Raises:
            Refusal: as the service refused.
        """
        part = _part(await anext(self._messages))
        if part.HasField("boolean"):
            self._first = _csv([("answer",), (str(part.boolean).lower(),)])
            return
        self._columns = list(part.variables) if part.form == "select" else _TRIPLE
        self._first = _csv([self._columns, *_rows(part, self._columns)])

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Returns this iterator."""
        return self

    async def __anext__(self) -> bytes:
        """Returns the rows of the next message."""
        if self._first:
            first, self._first = self._first, b""
            return first
        return _csv(_rows(_part(await anext(self._messages)), self._columns))

    async def aclose(self) -> None:
        """Ends the query."""
        await self._messages.aclose()


def excerpt(query: str, problem: str) -> str:
    """Returns the line of a query at a problem's line and column, with a mark below; "" if the problem has no place."""
    place = _PLACE.search(problem)
    if place is None:
        return ""
    line, column = int(place[1]), int(place[2])
    lines = query.splitlines() or [""]
    if not 1 <= line <= len(lines):
        return ""
    first = max(0, column - 61)
    text = lines[line - 1][first : first + 120]
    before = lines[line - 1][first : column - 1]
    mark = "".join(character if character == "\t" else " " for character in before)
    return f"{text}\n{mark}^"


def _problems(refusal: Refusal) -> Problems:
    """Returns the problem of a refused query at its field; also where the graph store does not answer."""
    return {"query": refusal.message} if refusal.code == "runtime_error" else problems_of(refusal)


async def _view(
    visit: Visit,
    shown: ResourceVersion,
    text: str,
    *,
    answer: GraphAnswer | None = None,
    problems: Problems = _NO_PROBLEMS,
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


def _part(message: Any) -> KnowledgeGraphAnswer:
    part: KnowledgeGraphAnswer = message
    return part


def _rows(part: KnowledgeGraphAnswer, columns: Sequence[str]) -> list[Sequence[str]]:
    if part.triples:
        return [(line,) for line in part.triples]
    bindings: list[Mapping[str, Any]] = [json.loads(row) for row in part.rows]
    return [[_term(row.get(name)) for name in columns] for row in bindings]


def _term(term: Mapping[str, Any] | None) -> str:
    if term is None:
        return ""
    value = term.get("value", "")
    if isinstance(value, Mapping):
        # A triple within a triple.
        return " ".join(_term(value.get(name)) for name in ("subject", "predicate", "object"))
    return f"_:{value}" if term.get("type") == "bnode" else str(value)


def _csv(rows: Sequence[Sequence[str]]) -> bytes:
    return csv_text(rows).encode()
