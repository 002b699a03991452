"""Interface of stores of knowledge graphs, and their errors."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from backend.common.json_text import JsonObject

if TYPE_CHECKING:
    from pyoxigraph import BlankNode, Literal, NamedNode, Triple

_ESCAPE: Final = re.compile(r"\\u([0-9A-Fa-f]{4})|\\U([0-9A-Fa-f]{8})")
# A variable, the local part of a name, or a segment of an IRI's path; no keyword begins inside one.
_NAMES: Final = re.compile(r"[?$:/#][^\W\d]\w*")
_LARGEST_CODE_POINT: Final = 0x10FFFF


class GraphRefusedError(Exception):
    """The request can never succeed; the message says why, for a person."""


class GraphUnavailableError(Exception):
    """The store is not available now; the message says why, for a person."""


class GraphOutcomeUnknownError(GraphUnavailableError):
    """The store did not say whether it carried out the update, and may still do so."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of a query: rows (or triples) and bytes of its answer, and seconds."""

    rows: int = 1_000
    seconds: float = 30.0
    size_bytes: int = 8 * 2**20


@dataclass(frozen=True, slots=True)
class ResultPart:
    """A part of an answer: the first has the form `select`, `ask` or `construct`, the last says if rows were cut.

    The form of a DESCRIBE is `construct`. `rows` are bindings in the format of SPARQL 1.1 results in JSON, `triples`
    are lines of N-Triples.
    """

    form: str = ""
    variables: list[str] = field(default_factory=list)
    boolean: bool | None = None
    rows: list[JsonObject] = field(default_factory=list)
    triples: list[str] = field(default_factory=list)
    truncated: bool = False


class TripleStatement(NamedTuple):
    """A triple that is created faster than one of pyoxigraph; `str` gives N-Triples too, without the full stop."""

    subject: "NamedNode | BlankNode"
    predicate: "NamedNode"
    object: "NamedNode | BlankNode | Literal | Triple"

    def __str__(self) -> str:
        object_ = self.object
        text = str(object_)
        # Only triples have a subject, and their own text lacks the brackets.
        return f"{self.subject} {self.predicate} {f'<<( {text} )>>' if hasattr(object_, 'subject') else text}"


class Graph(Protocol):
    """A knowledge graph. Each run has a named graph in it, which is replaced and removed as one."""

    def replace(self, name: str, triples: "Iterable[Triple | TripleStatement]") -> int:
        """Replaces the content of the named graph in one transaction; returns the number of triples.

        Raises:
            GraphOutcomeUnknownError: it may have changed, or change yet, for as long as an update may take.
            GraphRefusedError, GraphUnavailableError: nothing changed; errors of `triples` change nothing either.
        """

    def remove(self, name: str) -> None:
        """Removes a named graph, if there is one.

        Raises:
            GraphRefusedError, GraphUnavailableError: nothing changed.
        """

    def forget_removed(self) -> None:
        """Erases removed graphs from the disk, as far as this store can.

        Raises:
            GraphUnavailableError: some of it may remain.
        """

    def query(self, text: str, bounds: Bounds) -> Iterator[ResultPart]:
        """Evaluates a SPARQL query over the union of all named graphs; read-only.

        Raises:
            GraphRefusedError: the query is not valid, or exceeds its limits.
            GraphUnavailableError: the store does not answer.
        """

    def close(self) -> None:
        """Closes the store; work under way fails."""


def check_query(text: str) -> None:
    """Refuses a query with the word `SERVICE`, by which a store would call other addresses.

    The word is refused in strings and comments too, because only the parser knows where these end, and a mistake about
    that would let a call through.

    Raises:
        GraphRefusedError: the query holds the word.
    """
    plain = _NAMES.sub(" ", _ESCAPE.sub(_unescaped, text))
    if "service" in plain.lower():
        raise GraphRefusedError("SERVICE is not allowed, nor is the word in text or comments: nothing is called")


def _unescaped(match: re.Match[str]) -> str:
    code = int(match[1] or match[2], 16)
    return chr(code) if code <= _LARGEST_CODE_POINT else ""
