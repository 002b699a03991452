import asyncio
import json
from typing import Any

import pytest

from console.pages.graphs import query
from console.visit import ADMINISTRATORS, FileDownload, View, Visit
from contract.refusals import Refusal
from edge.admission.trial import try_call
from tests.unit.console.seen import (
    ADMINISTRATOR,
    UNSEEN,
    MemoryServices,
    answered,
    definition_answers,
    html,
    roles_of,
)
from workflow_api.v1.workflows_pb2 import (
    KnowledgeGraph,
    KnowledgeGraphAnswer,
    KnowledgeGraphPublication,
    KnowledgeGraphPublications,
    ListKnowledgeGraphsResponse,
    Resource,
    ResourceDefinition,
)

EVIL = f"<script>alert(1)</script>{UNSEEN}"
LIST = "/resources/graphs"
ONE = f"{LIST}/{{resource}}"
HERE = {"resource": "kg_1"}
RPC = "WorkflowsService/QueryKnowledgeGraph"


def row(**values: str) -> str:
    return json.dumps({name: {"type": "literal", "value": value} for name, value in values.items()})


def services(*parts: KnowledgeGraphAnswer) -> MemoryServices:
    resource = Resource(resource_id="kg_1", name="facts", version=1, type="folder")
    graph = KnowledgeGraph(graph_id="kg_1", name="facts", store="folder", runs=7, pending=2)
    backend = MemoryServices(
        {
            "WorkflowsService/GetResource": ResourceDefinition(resource=resource, shown_version=1, definition="{}"),
            "WorkflowsService/GetKnowledgeGraphPublications": KnowledgeGraphPublications(
                items=[KnowledgeGraphPublication(run_id="run_7", state="published")]
            ),
            "WorkflowsService/ListKnowledgeGraphs": ListKnowledgeGraphsResponse(items=[graph]),
            **definition_answers(),
        }
    )
    backend.streams[RPC] = list(parts)
    return backend


def asked(backend: MemoryServices, **form: str) -> Any:
    return answered(backend, "POST", f"{ONE}/query", HERE, form=form)


def select(*rows: str, truncated: bool = False) -> tuple[KnowledgeGraphAnswer, ...]:
    head = KnowledgeGraphAnswer(form="select", variables=["s", "o"])
    return head, KnowledgeGraphAnswer(rows=rows, truncated=truncated)


def test_the_list_says_how_much_was_published_to_each_graph() -> None:
    page = html(answered(services(), "GET", LIST))
    assert 'href="/resources/graphs/kg_1"' in page
    assert "<td>7</td>\n<td>2</td>" in page


def test_a_graph_shows_its_newest_publications_and_the_example_that_was_chosen() -> None:
    page = html(answered(services(), "GET", ONE, HERE, query={"example": "Triples by run"}))
    assert 'href="/runs/run_7"' in page
    assert "GROUP BY ?run" in page
    assert "example=Number+of+triples" in page


def test_an_answer_is_a_table_of_at_most_200_rows() -> None:
    backend = services(*select(*(row(s=f"subject {n}", o=EVIL) for n in range(201))))
    page = html(asked(backend, query="SELECT ?s ?o {?s ?p ?o}"))
    assert "subject 199" in page
    assert "subject 200" not in page
    assert "These are the first 200 rows; there are more." in page
    assert EVIL not in page
    ((_, request),) = [call for call in backend.calls if call[0] == RPC]
    assert (request.name, request.limit, request.timeout.seconds) == ("facts", 201, 30)


def test_long_values_do_not_make_a_page_of_more_than_its_bound() -> None:
    backend = services(*select(*(row(s="s" * 5_000, o="o" * 5_000) for _ in range(200))))
    page = html(asked(backend, query="SELECT"))
    assert len(page) < 100_000
    assert "there are more" in page


def test_yes_or_no_is_shown_for_an_ask() -> None:
    assert '<p class="figure">Yes</p>' in html(
        asked(services(KnowledgeGraphAnswer(form="ask", boolean=True)), query="A")
    )


def test_a_query_that_cannot_be_read_is_shown_with_the_place_of_its_error() -> None:
    backend = services()
    problem = {"name": "query", "reason": "it is not a SPARQL query: error at 2:8: expected <"}

    async def refuse(rpc: str, request: Any, seconds: float) -> Any:
        raise Refusal("invalid_request", details=[problem])
        yield

    backend.stream = refuse  # type: ignore[method-assign]
    answer = asked(backend, query="SELECT *\nWHERE {{ <b> }")
    assert isinstance(answer, View)
    assert answer.status == 400
    page = html(answer)
    assert "error at 2:8" in page
    assert "WHERE {{ &lt;b&gt; }\n       ^" in page


def downloaded(backend: MemoryServices) -> tuple[str, str]:
    """The name and text of the file, read in the loop that asked for it."""

    async def read() -> tuple[str, str]:
        answer = await query(
            Visit(ADMINISTRATOR, backend, HERE, form={"query": ["q"], "csv": ["yes"]}, try_call=try_call)
        )
        assert isinstance(answer, FileDownload)
        return answer.file_name, b"".join([part async for part in answer.parts]).decode()

    return asyncio.run(read())


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        (select(row(s="a", o='x "y", z'), row(s="b")), 's,o\r\na,"x ""y"", z"\r\nb,\r\n'),
        (
            select(row(s="=cmd|' /C calc'!A0", o="-2.5e+3"), row(s="@SUM(A1)", o="-1+1"), row(s="\tx", o="a=b")),
            "s,o\r\n'=cmd|' /C calc'!A0,-2.5e+3\r\n'@SUM(A1),'-1+1\r\n'\tx,a=b\r\n",
        ),
        ((KnowledgeGraphAnswer(form="ask", boolean=False),), "answer\r\nfalse\r\n"),
        (
            (KnowledgeGraphAnswer(form="construct"), KnowledgeGraphAnswer(triples=["<a> <b> <c> ."])),
            "Triple\r\n<a> <b> <c> .\r\n",
        ),
    ],
)
def test_an_answer_is_downloaded_as_csv(parts: tuple[KnowledgeGraphAnswer, ...], text: str) -> None:
    assert downloaded(services(*parts)) == ("facts.csv", text)


def test_only_administrators_query() -> None:
    assert roles_of("POST", f"{ONE}/query") == roles_of("GET", ONE) == ADMINISTRATORS
