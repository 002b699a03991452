"""Triples as lines of JSON arrays, for what a confined process hands to the service.

An IRI is text, a blank node a list of one text, a literal one of two (value, datatype) or four (and language and
direction), and a nested triple a list of three terms in an object. Loads pyoxigraph: imported where it is used.
"""

from collections.abc import Iterable, Iterator
from typing import IO, Any, Final

import orjson
from pyoxigraph import BaseDirection, BlankNode, Literal, NamedNode, Triple

from backend.graphs.graph import GraphRefusedError, Statement

DEEPEST_TRIPLE: Final = 16
"""How deep triples may be nested in one another."""

_BATCH_BYTES: Final = 256 * 1024
# A batch and one triple more; a parser holds at most 16 MiB of a term, and JSON may take six bytes for each.
_LONGEST_LINE: Final = 128 * 2**20


def write_triples(file: IO[bytes], triples: Iterable[Triple | Statement]) -> None:
    """Appends lines of triples to a file.

    Raises:
        GraphRefusedError: triples are nested too deeply.
    """
    batch: list[bytes] = []
    size = 0
    for triple in triples:
        text = orjson.dumps(_to_json(triple, DEEPEST_TRIPLE))
        batch.append(text)
        size += len(text)
        if size >= _BATCH_BYTES:
            file.write(b"[" + b",".join(batch) + b"]\n")
            batch, size = [], 0
    if batch:
        file.write(b"[" + b",".join(batch) + b"]\n")
    file.flush()


def read_triples(file: IO[bytes]) -> Iterator[Statement]:
    """The triples of untrusted lines; each term is built by a constructor that checks it.

    Raises:
        GraphRefusedError: the lines are something else.
    """
    try:
        while line := file.readline(_LONGEST_LINE):
            for subject, predicate, object_ in orjson.loads(line):
                yield Statement(_subject(subject), NamedNode(predicate), _term(object_, DEEPEST_TRIPLE))
    except (ValueError, TypeError, LookupError) as error:
        raise GraphRefusedError("something else than triples was read from it") from error


def _to_json(triple: Triple | Statement, levels: int) -> list[Any]:
    if not levels:
        raise GraphRefusedError(f"triples are nested more than {DEEPEST_TRIPLE} deep")
    return [_term_to_json(triple.subject, levels), triple.predicate.value, _term_to_json(triple.object, levels)]


def _term_to_json(term: NamedNode | BlankNode | Literal | Triple, levels: int) -> Any:
    if isinstance(term, NamedNode):
        return term.value
    if isinstance(term, Literal):
        language = term.language
        if language is None:
            return [term.value, term.datatype.value]
        direction = term.direction
        return [term.value, None, language, None if direction is None else str(direction)]
    if isinstance(term, BlankNode):
        return [term.value]
    return {"triple": _to_json(term, levels - 1)}


def _subject(written: Any) -> NamedNode | BlankNode:
    if isinstance(written, str):
        return NamedNode(written)
    (label,) = written
    return BlankNode(label)


def _from_json(written: Any, levels: int) -> Triple:
    if not levels:
        raise ValueError
    subject, predicate, object_ = written
    return Triple(_subject(subject), NamedNode(predicate), _term(object_, levels))


def _term(written: Any, levels: int) -> NamedNode | BlankNode | Literal | Triple:
    if isinstance(written, str):
        return NamedNode(written)
    if isinstance(written, dict):
        return _from_json(written["triple"], levels - 1)
    match written:
        case [value, datatype]:
            return Literal(value, datatype=NamedNode(datatype))
        case [value]:
            return BlankNode(value)
    value, _, language, direction = written
    return Literal(value, language=language, direction=None if direction is None else BaseDirection(direction))
