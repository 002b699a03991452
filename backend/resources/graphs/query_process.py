"""Program that evaluates one query on a copy of a graph: reads the query, and writes parts as lines of JSON.

It is a process of its own because nothing else can stop an evaluation or limit its memory. It is confined to its copy
of the graph.
"""

import json
import os
import re
import resource
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from backend.isolation.confined.confinement import confine, confinement

ResultPart = dict[str, Any]
"""Part of a result as a line of JSON, with the members of `graph.ResultPart`."""

_HEAD: Final = re.compile(
    r"\s*(?:PREFIX\s+[\w.-]*:\s*<[^<>]*>\s*)*(?P<select>SELECT)\s+(?P<shown>\*|[?$]\w+(?:\s+[?$]\w+)*)\s*(?:WHERE\s*)?\{",
    re.IGNORECASE,
)
_TEXT: Final = re.compile(r"""<[^<>\s]*>|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'""")
_VARIABLE: Final = re.compile(r"[?$](\w+)")
# Clauses that give rows of their own, or match something that no row shows.
_OTHER: Final = re.compile(
    r"\b(?:GRAPH|UNION|VALUES|GROUP|HAVING|BIND|SELECT|MINUS|FROM|EXISTS)\b|_:|\[|\(\s*\)|[/|*+^#]|\"\"\"|'''",
    re.IGNORECASE,
)


if TYPE_CHECKING:
    from pyoxigraph import BlankNode, Literal, NamedNode, QuerySolutions, QueryTriples, Store, Triple

_MEMORY_BYTES: Final = 2 * 2**30
_BATCH: Final = 200


def main(folder: str, rows: int, seconds: float, size_bytes: int) -> None:
    """Evaluates the query on standard input."""
    # An alarm, in case the service that would end this process in time has died.
    signal.alarm(int(seconds) + 2)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    confine(confinement(os.getppid(), own=[Path(folder)]))
    from pyoxigraph import Store

    text = sys.stdin.buffer.read().decode()
    try:
        for part in _answer(Store.read_only(folder), text, rows, size_bytes):
            _write(part)
    except SyntaxError as error:
        _write({"refused": f"it is not a SPARQL query: {error}"})
    except (ValueError, OSError, RuntimeError) as error:
        _write({"refused": str(error)})


def _write(part: ResultPart) -> None:
    sys.stdout.write(json.dumps(part) + "\n")
    sys.stdout.flush()


def with_distinct_rows(query: str) -> str:
    """Returns the query with DISTINCT if that removes only repeated triples, else unchanged."""
    head = _HEAD.match(query)
    if head is None:
        return query
    body = _TEXT.sub(" ", query[head.end() :])
    if _OTHER.search(body):
        return query
    shown = set(_VARIABLE.findall(head["shown"]))
    if shown and not set(_VARIABLE.findall(body)) <= shown:
        return query
    return f"{query[: head.end('select')]} DISTINCT{query[head.end('select') :]}"


def _answer(store: "Store", text: str, rows: int, size_bytes: int) -> Iterator[ResultPart]:
    from pyoxigraph import QueryBoolean, QuerySolutions

    try:
        found = store.query(with_distinct_rows(text), use_default_graph_as_union=True)
    except SyntaxError:
        # Parsed first as sent, so that the position of an error fits the caller's text.
        found = store.query(text, use_default_graph_as_union=True)
    if isinstance(found, QueryBoolean):
        yield {"form": "ask", "boolean": bool(found)}
        return
    if isinstance(found, QuerySolutions):
        variables = [variable.value for variable in found.variables]
        yield {"form": "select", "variables": variables}
        yield from _bounded("rows", _rows(found, variables), rows, size_bytes)
    else:
        yield {"form": "construct"}
        yield from _bounded("triples", _lines(found), rows, size_bytes)


def _rows(found: "QuerySolutions", variables: list[str]) -> Iterator[ResultPart]:
    for solution in found:
        yield {name: _term(solution[name]) for name in variables if solution[name] is not None}


def _lines(found: "QueryTriples") -> Iterator[str]:
    for triple in found:
        yield f"{triple} ."


def _bounded(kind: str, items: Iterator[object], most: int, size_bytes: int) -> Iterator[ResultPart]:
    """Yields batches up to the limits; the last says whether there was more."""
    batch: list[object] = []
    size = 0
    truncated = False
    for number, item in enumerate(items):
        size += len(json.dumps(item, ensure_ascii=False).encode())
        if number == most or size > size_bytes:
            truncated = True
            break
        batch.append(item)
        if len(batch) == _BATCH:
            yield {kind: batch}
            batch = []
    yield {kind: batch, "truncated": truncated}


def _term(term: "NamedNode | BlankNode | Literal | Triple") -> ResultPart:
    """Returns a term in the format of SPARQL 1.1 results in JSON."""
    from pyoxigraph import BlankNode, NamedNode, Triple

    match term:
        case NamedNode():
            return {"type": "uri", "value": term.value}
        case BlankNode():
            return {"type": "bnode", "value": term.value}
        case Triple():
            parts = {name: _term(getattr(term, name)) for name in ("subject", "predicate", "object")}
            return {"type": "triple", "value": parts}
    literal = {"type": "literal", "value": term.value}
    if term.language:
        return literal | {"xml:lang": term.language}
    if term.datatype.value != "http://www.w3.org/2001/XMLSchema#string":
        return literal | {"datatype": term.datatype.value}
    return literal


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]))
