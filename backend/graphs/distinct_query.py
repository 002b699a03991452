"""Queries over the union of named graphs whose rows tell a triple once, however many of the graphs hold it.

The store matches a triple in each graph that holds it, and not once in a merged default graph as SPARQL has it. Where a
row shows all that was matched, a repeated row is such a triple, and DISTINCT takes it away. Rows that show a part, and
aggregates, stay as they are: two invoices may have the same total.
"""

import re
from typing import Final

_HEAD: Final = re.compile(
    r"\s*(?:PREFIX\s+[\w.-]*:\s*<[^<>]*>\s*)*(?P<select>SELECT)\s+(?P<shown>\*|[?$]\w+(?:\s+[?$]\w+)*)\s*(?:WHERE\s*)?\{",
    re.IGNORECASE,
)
_TEXT: Final = re.compile(r"""<[^<>\s]*>|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'""")
_VARIABLE: Final = re.compile(r"[?$](\w+)")
# What gives rows of its own, or matches something that no row shows.
_OTHER: Final = re.compile(
    r"\b(?:GRAPH|UNION|VALUES|GROUP|HAVING|BIND|SELECT|MINUS|FROM|EXISTS)\b|_:|\[|\(\s*\)|[/|*+^#]|\"\"\"|'''",
    re.IGNORECASE,
)


def with_distinct_rows(query: str) -> str:
    """Returns the query with DISTINCT where that takes away nothing but repeated triples, else as it is."""
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
