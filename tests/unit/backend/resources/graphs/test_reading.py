"""Parsing of files to triples: RDF, and rows by a mapping."""

import io
import socket
from typing import Any

import pytest
from pyoxigraph import BlankNode, Literal, NamedNode

from backend.resources.graphs.graph import GraphRefusedError
from backend.resources.graphs.parse_program import read_rdf, read_rows

XSD = "http://www.w3.org/2001/XMLSchema#"


def rdf(ending: str, text: str | bytes, base: str | None = None) -> list[str]:
    content = text if isinstance(text, bytes) else text.encode()
    return [str(triple) for triple in read_rdf(io.BytesIO(content), ending, base)]


def column(predicate: str, **fields: Any) -> dict[str, Any]:
    return {"predicate": predicate, "datatype": None, "iri": None} | fields


def mapping(subject: str = "x:row/{id}", kind: str | None = None, **columns: Any) -> dict[str, Any]:
    return {"subject": subject, "type": kind, "columns": columns}


def rows(ending: str, text: str | bytes, by: dict[str, Any]) -> list[str]:
    content = text if isinstance(text, bytes) else text.encode()
    return [str(triple) for triple in read_rows(io.BytesIO(content), ending, by)]


@pytest.mark.parametrize(
    ("ending", "text"),
    [
        (".ttl", "@prefix x: <x:> . x:a x:b x:c ."),
        (".nt", "<x:a> <x:b> <x:c> ."),
        (".nq", "<x:a> <x:b> <x:c> <x:some-graph> ."),
        (".trig", "<x:some-graph> { <x:a> <x:b> <x:c> }"),
        (".jsonld", '{"@id": "x:a", "x:b": {"@id": "x:c"}}'),
    ],
)
def test_every_form_gives_triples_without_names_of_graphs(ending: str, text: str) -> None:
    assert rdf(ending, text) == ["<x:a> <x:b> <x:c>"]


def test_relative_iris_are_resolved_against_the_base_and_refused_without_one() -> None:
    assert rdf(".ttl", "<a> <b> <#c> .", "https://e.org/") == ["<https://e.org/a> <https://e.org/b> <https://e.org/#c>"]
    with pytest.raises(GraphRefusedError, match="line 1"):
        rdf(".ttl", "<a> <b> <c> .")


def test_blank_nodes_of_two_files_are_never_the_same() -> None:
    first, second = (list(read_rdf(io.BytesIO(b"_:n <x:b> _:n ."), ".nt", None)) for _ in range(2))
    assert isinstance(first[0].subject, BlankNode)
    assert first[0].subject == first[0].object
    assert first[0].subject != second[0].subject


@pytest.mark.parametrize(
    ("ending", "text", "reason"),
    [
        (".ttl", "@prefix x: <x:> .\nx:a x:b .\n", "line 2"),
        (".ttl", b'<x:a> <x:b> "\xff" .', "UTF-8"),
        (".jsonld", "[", "line 1"),
    ],
)
def test_what_is_malformed_is_told_with_its_place(ending: str, text: str | bytes, reason: str) -> None:
    with pytest.raises(GraphRefusedError, match=reason):
        rdf(ending, text)


@pytest.mark.parametrize(
    "context", ['"{url}"', '["{url}"]', '{{"@import": "{url}"}}', '{{"t": {{"@id": "x:t", "@context": "{url}"}}}}']
)
def test_a_context_on_the_network_is_refused_and_never_fetched(context: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/context.jsonld"
        document = f'{{"@context": {context.format(url=url)}, "@id": "x:a", "t": {{"t": "v"}}}}'
        with pytest.raises(GraphRefusedError, match="never fetched"):
            rdf(".jsonld", document)
        with pytest.raises(BlockingIOError):
            listening.accept()


def test_a_mapping_makes_triples_of_csv() -> None:
    by = mapping(kind="x:Row", n=column("x:n", datatype=f"{XSD}decimal"), who=column("x:who", iri="x:who/{who}"))
    assert rows(".csv", "\ufeffid,n,who,other\n1,2.50,Ann Lee/é,x\n2,,,\n", by) == [
        "<x:row/1> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <x:Row>",
        f'<x:row/1> <x:n> "2.50"^^<{XSD}decimal>',
        "<x:row/1> <x:who> <x:who/Ann%20Lee%2F%C3%A9>",
        "<x:row/2> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <x:Row>",
    ]


def test_a_mapping_makes_triples_of_json_lines_with_their_types() -> None:
    by = mapping("{id}", n=column("x:n"), to=column("x:to", iri="{to}"))
    text = '{"id": "x:1", "n": [1, 2.5, true, "t"], "to": ["x:2", "x:3"]}\n\n{"id": "x:4", "n": null}\n'
    found = list(read_rows(io.BytesIO(text.encode()), ".jsonl", by))
    assert [triple.object for triple in found] == [
        Literal("1", datatype=NamedNode(f"{XSD}integer")),
        Literal("2.5", datatype=NamedNode(f"{XSD}double")),
        Literal("true", datatype=NamedNode(f"{XSD}boolean")),
        Literal("t"),
        NamedNode("x:2"),
        NamedNode("x:3"),
    ]


@pytest.mark.parametrize(
    ("ending", "text", "reason"),
    [
        (".csv", "id\n1\n", "row 1: there is no column 'n'"),
        (".csv", "id,n\n1,2\n,3\n", "row 2: column 'id' is empty"),
        (".csv", "id,n\n1,2,3\n", "row 1: the row has more cells than the header"),
        (".csv", 'id,n\n1,"2\n', "row 1: unexpected end of data"),
        (".csv", b"id,n\n1,\xff\n", "row 1: it is not UTF-8"),
        (".jsonl", '{"id": 1}\n[]\n', "row 2: the line is no JSON object"),
        (".jsonl", '{"id": 1}\n{\n', "row 2: Expecting property name"),
        (".jsonl", '{"id": 1, "n": {}}\n', "row 1: column 'n' holds neither text"),
        (".jsonl", '{"id": 1, "n": NaN}\n', "row 1: Out of range"),
    ],
)
def test_a_row_that_does_not_fit_is_told_with_its_number(ending: str, text: str | bytes, reason: str) -> None:
    with pytest.raises(GraphRefusedError) as refused:
        rows(ending, text, mapping(n=column("x:n")))
    assert str(refused.value).startswith(reason)


def test_a_template_that_makes_no_iri_is_told() -> None:
    with pytest.raises(GraphRefusedError, match="row 1"):
        rows(".csv", "id\nno iri\n", mapping("{id}", kind="x:Row"))


class Endless(io.RawIOBase):
    """A file that repeats the same content for ever, and counts the bytes read."""

    def __init__(self, begin: bytes, again: bytes) -> None:
        self.taken = 0
        self._next = begin
        self._again = again * (64 * 1024 // len(again))

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        assert self.taken < 2**26, "it was read on and on"
        part = self._next[: len(buffer)]
        self._next = self._next[len(part) :] or self._again
        buffer[: len(part)] = part
        self.taken += len(part)
        return len(part)


@pytest.mark.parametrize(
    ("ending", "begin", "again", "reason"),
    [
        (".csv", b"id,", b"a", r"row 1: it is longer than 4 MiB"),
        (".csv", b"id\n", b"1,", r"row 1: it is longer than 4 MiB"),
        (".csv", b"id\n1\n", b'"a\nb",', r"row 2: it is longer than 4 MiB"),
        (".csv", b'id\n1\n2\n"', b"a\n", r"row 3: field larger than field limit \(131072\)"),
        (".jsonl", b'{"id": 1}\n', b"1", r"row 2: it is longer than 4 MiB"),
    ],
)
def test_a_row_without_an_end_is_refused(ending: str, begin: bytes, again: bytes, reason: str) -> None:
    file = io.BufferedReader(Endless(begin, again))
    with pytest.raises(GraphRefusedError, match=reason):
        list(read_rows(file, ending, mapping()))


@pytest.mark.parametrize(
    ("ending", "begin", "again"),
    [(".ttl", b'<x:a> <x:b> "', b"a"), (".jsonld", b'{"@id": "x:a", "x:b": ["', b'a","')],
)
def test_rdf_that_the_parser_would_hold_in_memory_is_refused(ending: str, begin: bytes, again: bytes) -> None:
    with pytest.raises(GraphRefusedError):
        list(read_rdf(io.BufferedReader(Endless(begin, again)), ending, None))


def test_many_rows_are_read_however_much_they_are_together() -> None:
    text = "id\n" + "".join(f"{number}{'x' * 1_000}\n" for number in range(5_000))
    assert len(rows(".csv", text, mapping(kind="x:Row"))) == 5_000
