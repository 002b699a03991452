"""A graph in a folder: replaced and removed in one transaction, and queried within limits."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyoxigraph import Literal, NamedNode, Triple

from backend.resources.graphs.folder import FolderGraph, run_query
from backend.resources.graphs.graph import Bounds, GraphRefusedError, GraphUnavailableError, ResultPart
from tests.support.poll import until

SECRET = "a text that is too long to stand in a key of the database"
RUN = "urn:workflow-api:run:run_1"
OTHER = "urn:workflow-api:run:run_2"
COUNT = "SELECT (COUNT(*) AS ?n) { GRAPH ?g { ?s ?p ?o } }"
ENDLESS = "SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l }"


def triples(*values: str) -> list[Triple]:
    return [Triple(NamedNode(f"x:{n}"), NamedNode("x:value"), Literal(value)) for n, value in enumerate(values)]


def ask(graph: FolderGraph, text: str, bounds: Bounds | None = None) -> list[ResultPart]:
    return list(graph.query(text, bounds or Bounds()))


def count(graph: FolderGraph) -> int:
    return int(ask(graph, COUNT)[1].rows[0]["n"]["value"])


def files_with(folder: Path, text: str) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


def test_publishing_twice_leaves_the_same(folder: FolderGraph) -> None:
    for _ in range(2):
        assert folder.replace(RUN, triples("a", "b")) == 2
    folder.replace(OTHER, triples("a"))
    assert count(folder) == 3
    assert {row["g"]["value"] for row in ask(folder, "SELECT DISTINCT ?g { GRAPH ?g {} }")[1].rows} == {RUN, OTHER}


def test_a_named_graph_is_replaced_as_a_whole_also_by_nothing(folder: FolderGraph) -> None:
    folder.replace(RUN, triples("a", "b", "c"))
    folder.replace(RUN, triples("d"))
    assert count(folder) == 1
    assert folder.replace(RUN, []) == 0
    assert count(folder) == 0


@pytest.mark.parametrize("before", [0, 3])
def test_a_replacement_that_breaks_off_changes_nothing(folder: FolderGraph, before: int) -> None:
    folder.replace(RUN, triples(*"abc"[:before]))

    def broken() -> Iterator[Triple]:
        yield from triples("x", "y", "z", "z")
        raise GraphRefusedError("malformed")

    with pytest.raises(GraphRefusedError, match="malformed"):
        folder.replace(RUN, broken())
    assert count(folder) == before


def test_what_is_removed_is_gone_from_the_files_as_well(folder: FolderGraph, tmp_path: Path) -> None:
    folder.replace(RUN, triples(SECRET))
    folder.replace(OTHER, triples("kept", f"{SECRET[::-1]}"))
    assert files_with(tmp_path, SECRET)
    folder.remove(RUN)
    folder.remove(RUN)
    folder.forget_removed()
    assert not files_with(tmp_path, SECRET)
    assert files_with(tmp_path, SECRET[::-1])
    assert count(folder) == 2


@pytest.mark.parametrize("part", ["_all_quads", "_make_current"])
def test_a_rewriting_that_fails_leaves_no_half_database(
    folder: FolderGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    def full(*_: object) -> None:
        raise OSError("the disk is full")

    folder.replace(RUN, triples("a"))
    before = set((tmp_path / "graph").iterdir())
    with monkeypatch.context() as fault:
        fault.setattr(folder, part, full)
        for _ in range(3):
            with pytest.raises(GraphUnavailableError):
                folder.forget_removed()
    assert set((tmp_path / "graph").iterdir()) == before
    folder.replace(OTHER, triples("b"))
    assert count(folder) == 2


def test_a_rewritten_database_is_the_current_one_though_it_was_not_synced(
    folder: FolderGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: Path) -> None:
        raise OSError("the disk does not answer")

    folder.replace(RUN, triples("a"))
    with monkeypatch.context() as fault:
        fault.setattr("backend.resources.graphs.folder.sync_folder", broken)
        with pytest.raises(GraphUnavailableError):
            folder.forget_removed()
    folder.replace(OTHER, triples("b"))
    folder.close()
    again = FolderGraph(tmp_path / "graph")
    assert count(again) == 2
    again.close()


def test_rewriting_an_empty_graph_spares_what_is_being_queried(
    folder: FolderGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rewritten_meanwhile(copy: Path, text: str, bounds: Bounds) -> Iterator[ResultPart]:
        folder.forget_removed()
        return run_query(copy, text, bounds)

    monkeypatch.setattr("backend.resources.graphs.folder.run_query", rewritten_meanwhile)
    assert count(folder) == 0


def test_a_graph_outlives_its_process_and_a_crash_amid_rewriting(folder: FolderGraph, tmp_path: Path) -> None:
    folder.replace(RUN, triples("a"))
    folder.close()
    (tmp_path / "graph" / "db_half_written").mkdir()
    (tmp_path / "graph" / "copy_of_a_query").mkdir()
    again = FolderGraph(tmp_path / "graph")
    assert count(again) == 1
    assert {path.name.partition("_")[0] for path in (tmp_path / "graph").iterdir()} == {"current", "db"}
    assert len(list((tmp_path / "graph").iterdir())) == 2
    again.close()


def test_a_closed_graph_is_not_available(folder: FolderGraph) -> None:
    folder.close()
    with pytest.raises(GraphUnavailableError):
        folder.replace(RUN, triples("a"))
    with pytest.raises(GraphUnavailableError):
        ask(folder, COUNT)


def test_closing_ends_a_replacement_under_way(folder: FolderGraph) -> None:
    closer = threading.Thread(target=folder.close)

    def is_closing() -> bool:
        try:
            ask(folder, COUNT)
        except GraphUnavailableError:
            return True
        return False

    def closing() -> Iterator[Triple]:
        yield from triples("a")
        closer.start()
        until(is_closing, "the close")
        yield from triples("b")

    with pytest.raises(GraphUnavailableError):
        folder.replace(RUN, closing())
    closer.join()


def test_select_ask_construct_and_describe_are_answered(folder: FolderGraph, tmp_path: Path) -> None:
    terms: list[Literal | NamedNode] = [
        Literal("x", language="en"),
        Literal(5),
        Literal("plain"),
        NamedNode("x:o"),
    ]
    folder.replace(RUN, [Triple(NamedNode("x:s"), NamedNode(f"x:{n}"), term) for n, term in enumerate(terms)])
    head, rows = ask(folder, "SELECT ?o ?none { ?s ?p ?o } ORDER BY ?p")
    assert (head.form, head.variables) == ("select", ["o", "none"])
    assert [row["o"] for row in rows.rows] == [
        {"type": "literal", "value": "x", "xml:lang": "en"},
        {"type": "literal", "value": "5", "datatype": "http://www.w3.org/2001/XMLSchema#integer"},
        {"type": "literal", "value": "plain"},
        {"type": "uri", "value": "x:o"},
    ]
    assert ask(folder, "ASK { ?s <x:1> 5 }") == [ResultPart(form="ask", boolean=True)]
    assert ask(folder, "CONSTRUCT { ?s <x:new> ?o } WHERE { ?s <x:3> ?o }") == [
        ResultPart(form="construct"),
        ResultPart(triples=["<x:s> <x:new> <x:o> ."]),
    ]
    head, described = ask(folder, "DESCRIBE <x:s>")
    assert (head.form, len(described.triples)) == ("construct", 4)
    assert not list(tmp_path.glob("graph/copy_*"))


def test_an_answer_is_cut_at_its_bounds(folder: FolderGraph) -> None:
    folder.replace(RUN, triples(*(str(n) for n in range(500))))
    every = "SELECT * { ?s ?p ?o }"
    for rows, cut in ((499, True), (500, False)):
        parts = ask(folder, every, Bounds(rows=rows))
        assert (sum(len(part.rows) for part in parts), parts[-1].truncated) == (rows, cut)
    parts = ask(folder, every, Bounds(size_bytes=2_000))
    assert 0 < sum(len(part.rows) for part in parts) < 50
    assert parts[-1].truncated


@pytest.mark.parametrize("text", ["SELEC", "INSERT DATA { <x:a> <x:b> <x:c> }", "DROP ALL", "LOAD <http://127.0.0.1/>"])
def test_only_queries_are_evaluated(folder: FolderGraph, text: str) -> None:
    with pytest.raises(GraphRefusedError, match="it is not a SPARQL query"):
        ask(folder, text)


def test_a_query_ends_with_its_time(folder: FolderGraph, tmp_path: Path) -> None:
    folder.replace(RUN, triples(*(str(n) for n in range(1_000))))
    with pytest.raises(GraphRefusedError, match="it takes longer than 1 seconds"):
        ask(folder, ENDLESS, Bounds(seconds=1))
    assert not list(tmp_path.glob("graph/copy_*"))


def test_a_query_that_is_left_off_leaves_no_process(folder: FolderGraph, tmp_path: Path) -> None:
    folder.replace(RUN, triples(*(str(n) for n in range(1_000))))
    parts = folder.query("SELECT * { ?a ?b ?c . ?d ?e ?f }", Bounds(rows=100_000))
    next(parts)
    parts.close()  # type: ignore[attr-defined]  # it is a generator
    assert not list(tmp_path.glob("graph/copy_*"))
