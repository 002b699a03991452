"""Encoding of triples as lines of JSON arrays, which confined processes send to the service.

An IRI is a string; a blank node a list of one string; a literal a list of two (value, datatype) or four (also language
and direction); a nested triple a list of three terms in an object. Importing this loads pyoxigraph, which is slow.
"""

from collections.abc import Iterable, Iterator
from typing import IO, Any, Final

import orjson
from pyoxigraph import BaseDirection, BlankNode, Literal, NamedNode, Triple

from backend.common.json_text import JsonValue
from backend.resources.graphs.graph import GraphRefusedError, TripleStatement

DEEPEST_TRIPLE: Final = 16
"""Deepest nesting of triples in triples."""

_BATCH_BYTES: Final = 256 * 1024
# A batch and one more triple: parsers allow 16 MiB for a term, and JSON may take six bytes for each byte.
_LONGEST_LINE: Final = 128 * 2**20


def write_triples(file: IO[bytes], triples: Iterable[Triple | TripleStatement]) -> None:
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


def read_triples(file: IO[bytes]) -> Iterator[TripleStatement]:
    """Yields the triples of untrusted lines; the constructor of each term validates it.

    Raises:
        GraphRefusedError: the lines are not encoded triples.
    """
    try:
        while line := file.readline(_LONGEST_LINE):
            for subject, predicate, object_ in orjson.loads(line):
                yield TripleStatement(_subject(subject), NamedNode(predicate), _term(object_, DEEPEST_TRIPLE))
    except (ValueError, TypeError, LookupError) as error:
        raise GraphRefusedError("something else than triples was read from it") from error


def _to_json(triple: Triple | TripleStatement, levels: int) -> list[JsonValue]:
    if not levels:
        raise GraphRefusedError(f"triples are nested more than {DEEPEST_TRIPLE} deep")
    return [_term_to_json(triple.subject, levels), triple.predicate.value, _term_to_json(triple.object, levels)]


def _term_to_json(term: NamedNode | BlankNode | Literal | Triple, levels: int) -> JsonValue:
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
