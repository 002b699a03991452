"""Graphs in text stay graphs: what stands for a value is a legal term, and names stay."""

import pyoxigraph
import pytest

from redaction.redactor import Redactor
from tests.support.work import calls_of
from tests.unit.redaction.conftest import SweepFile

_FORMATS = {
    "ttl": pyoxigraph.RdfFormat.TURTLE,
    "nt": pyoxigraph.RdfFormat.N_TRIPLES,
    "nq": pyoxigraph.RdfFormat.N_QUADS,
    "trig": pyoxigraph.RdfFormat.TRIG,
}
_FOAF = "http://xmlns.com/foaf/0.1/"
_HEAD = (
    f"@prefix foaf: <{_FOAF}> .\nPREFIX ex: <urn:ex:>\n@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .\n"
    "# Written by jane@mail.example\n"
)
_BODY = r"""ex:jane a foaf:Person ; foaf:mbox <mailto:jane@mail.example>, <mailto:jane\u0040mail.example> ;
  foaf:familyName "Roe"@en, 'Doe' ; foaf:nick "write to jane\u0040mail.example \"today\"\n" ;
  foaf:note '''Two
lines of jane@mail.example''' ; foaf:phone <tel:+12025550123> ; foaf:account 4111111111111111 ; foaf:age 30 ;
  foaf:born "1990-01-02"^^xsd:date ; foaf:knows [ foaf:mbox "bob@mail.example" ; foaf:list ( 1 "eve@mail.example" ) ] ;
  foaf:page ex:jane\@mail.example, <mailto:jane%40mail.example>, <http://mail.example/~jane> .
"""
_LINES = rf"""<urn:ex:jane> <{_FOAF}mbox> <mailto:jane\u0040mail.example> .
<urn:ex:jane> <{_FOAF}familyName> "Roe"@en .
<urn:ex:jane> <{_FOAF}note> "jane\u0040mail.example\nand 4111111111111111" . # jane@mail.example
_:b1 <{_FOAF}account> "4111111111111111"^^<http://www.w3.org/2001/XMLSchema#integer> .
"""
_TEXTS = {
    "ttl": _HEAD + _BODY,
    "nt": _LINES,
    "nq": _LINES.replace(" .\n", " <urn:ex:graph> .\n"),
    "trig": f"{_HEAD}ex:graph {{ {_BODY} }}\nGRAPH ex:other {{ {_BODY} }}\n",
}


@pytest.mark.parametrize("extension", _TEXTS)
def test_a_swept_graph_is_a_graph_with_the_same_names(engine: Redactor, sweep_file: SweepFile, extension: str) -> None:
    given = list(pyoxigraph.parse(_TEXTS[extension], format=_FORMATS[extension]))
    _, swept = sweep_file(engine, f"graph.{extension}", _TEXTS[extension].encode())
    assert swept is not None
    assert not [value for value in (b"mail.example", b"Roe", b"4111", b"2025550123", b"u0040") if value in swept]
    parsed = list(pyoxigraph.parse(swept, format=_FORMATS[extension]))
    assert [quad.predicate for quad in parsed] == [quad.predicate for quad in given]
    assert [type(quad.object) for quad in parsed[:6]] == [type(quad.object) for quad in given[:6]]
    objects = {quad.object for quad in parsed}
    assert pyoxigraph.NamedNode("mailto:EMAIL_ADDRESS@redacted.invalid") in objects
    assert pyoxigraph.Literal("[PERSON]", language="en") in objects
    if extension in {"ttl", "trig"}:
        assert pyoxigraph.NamedNode(f"{_FOAF}Person") in objects
        assert pyoxigraph.Literal("[CREDIT_CARD]") in objects
        assert pyoxigraph.Literal('write to [EMAIL_ADDRESS] "today"\n') in objects
        assert pyoxigraph.Literal(30) in objects


def test_a_graph_without_values_stays_as_it_is(engine: Redactor, sweep_file: SweepFile) -> None:
    text = (
        _HEAD.replace("jane@mail.example", "hand")
        + 'ex:a.b a foaf:Thing ; foaf:count 12, 1.5e3, true ; ex:c "d\\n" .\n'
    )
    _, swept = sweep_file(engine, "graph.ttl", text.encode())
    assert swept is not None
    assert swept.decode() == text


def test_a_file_that_is_no_graph_is_swept_as_text(engine: Redactor, sweep_file: SweepFile) -> None:
    _, swept = sweep_file(engine, "notes.ttl", b'Dear Jane Doe,\nwrite to bob@mail.example. "Yours\n')
    assert swept == engine.text('Dear Jane Doe,\nwrite to bob@mail.example. "Yours\n').encode()


@pytest.mark.parametrize("unit", ['"""a\n', "<a", "[ ", "a:b.c", "\\u0040", "^^", "'''\"", "1.2e"])
def test_a_graph_twice_as_long_costs_twice_as_much(engine: Redactor, sweep_file: SweepFile, unit: str) -> None:
    sweep_file(engine, "graph.ttl", unit.encode())
    half = calls_of(lambda: sweep_file(engine, "graph.ttl", (unit * 1_000).encode()))
    assert calls_of(lambda: sweep_file(engine, "graph.ttl", (unit * 2_000).encode())) < 2.4 * half
