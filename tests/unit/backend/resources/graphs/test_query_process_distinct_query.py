"""A triple that several runs published is one row, and nothing else is taken away. (docs/knowledge-graphs.md)"""

import pytest
from pyoxigraph import Literal, NamedNode, Quad, Store

from backend.resources.graphs.query_process import with_distinct_rows


@pytest.fixture(name="store", scope="module")
def _store() -> Store:
    store = Store()
    for run, invoice, total in (("1", "a", "5"), ("2", "a", "5"), ("2", "b", "5")):
        store.add(Quad(NamedNode(f"x:{invoice}"), NamedNode("x:total"), Literal(total), NamedNode(f"x:run{run}")))
    return store


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("SELECT * { ?s ?p ?o }", 2),
        ("PREFIX x: <x:> select ?s ?o where { ?s x:total ?o . FILTER(?o = '5') } ORDER BY ?s", 2),
        ("SELECT ?s ?p ?o { ?s ?p ?o } LIMIT 2", 2),
        # Each invoice has a total, though they are the same.
        ("SELECT ?o { ?s ?p ?o }", 3),
        ("SELECT ?s ?g { GRAPH ?g { ?s ?p ?o } }", 3),
        ("SELECT ?s ?o { { ?s ?p ?o } UNION { ?s ?p ?o } }", 6),
        ("SELECT (COUNT(*) AS ?n) { ?s ?p ?o }", 1),
        ("SELECT DISTINCT ?o { ?s ?p ?o }", 1),
        ("SELECT ?s { ?s <x:total>/^<x:total> ?s }", 5),
    ],
)
def test_only_rows_that_show_all_that_was_matched_are_told_once(store: Store, query: str, rows: int) -> None:
    assert len(list(store.query(with_distinct_rows(query), use_default_graph_as_union=True))) == rows  # type: ignore[arg-type]


@pytest.mark.parametrize("query", ["ASK { ?s ?p ?o }", "SELECT", "", "CONSTRUCT { ?s ?p ?o } WHERE { ?s ?p ?o }"])
def test_other_queries_stay_as_they_are(query: str) -> None:
    assert with_distinct_rows(query) == query
