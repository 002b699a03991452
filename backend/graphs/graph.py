"""What every store of a knowledge graph offers, and the ways in which it may fail."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from pyoxigraph import BlankNode, Literal, NamedNode, Triple

_ESCAPE: Final = re.compile(r"\\u([0-9A-Fa-f]{4})|\\U([0-9A-Fa-f]{8})")
# A variable, the local part of a name, or a segment of an IRI's path; a keyword cannot begin inside of one.
_NAMES: Final = re.compile(r"[?$:/#][^\W\d]\w*")
_LARGEST_CODE_POINT: Final = 0x10FFFF


class GraphRefusedError(Exception):
    """What was asked for will never succeed as it is; the message says why, for a person."""


class GraphUnavailableError(Exception):
    """The store does not answer now; the message says why, for a person."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much a query may take: rows (or triples) and bytes that it answers, and seconds."""

    rows: int = 1_000
    seconds: float = 30.0
    size_bytes: int = 8 * 2**20


@dataclass(frozen=True, slots=True)
class Part:
    """A part of an answer: the first has the form `select`, `ask` or `construct`, the last says whether it was cut.

    A DESCRIBE has the form `construct`. `rows` are bindings as the SPARQL 1.1 results in JSON have them, `triples`
    lines of N-Triples.
    """

    form: str = ""
    variables: list[str] = field(default_factory=list)
    boolean: bool | None = None
    rows: list[dict[str, Any]] = field(default_factory=list)
    triples: list[str] = field(default_factory=list)
    truncated: bool = False


class Statement(NamedTuple):
    """A triple that is quicker to make than one of pyoxigraph; its text is N-Triples too, without the full stop."""

    subject: "NamedNode | BlankNode"
    predicate: "NamedNode"
    object: "NamedNode | BlankNode | Literal | Triple"

    def __str__(self) -> str:
        object_ = self.object
        text = str(object_)
        # The text of a triple is that of its terms alone; no other term has a subject.
        return f"{self.subject} {self.predicate} {f'<<( {text} )>>' if hasattr(object_, 'subject') else text}"


class Graph(Protocol):
    """One knowledge graph. Each run has one named graph in it, which is replaced and removed as a whole."""

    def replace(self, name: str, triples: "Iterable[Triple | Statement]") -> int:
        """Makes the triples the content of the named graph in one transaction; gives their number.

        Raises:
            GraphRefusedError, GraphUnavailableError: nothing changed; so it is with whatever `triples` raises.
        """

    def remove(self, name: str) -> None:
        """Takes a named graph away; that there is none is no error.

        Raises:
            GraphRefusedError, GraphUnavailableError: nothing changed.
        """

    def forget_removed(self) -> None:
        """Leaves nothing readable of what was removed, as far as this store can tell.

        Raises:
            GraphUnavailableError: something may still be there.
        """

    def query(self, text: str, bounds: Bounds) -> Iterator[Part]:
        """Evaluates a SPARQL query over the union of all named graphs; it changes nothing.

        Raises:
            GraphRefusedError: the query is not valid, or it would go beyond its bounds.
            GraphUnavailableError: the store does not answer.
        """

    def close(self) -> None:
        """Gives back what it holds open; work under way fails."""


def check_query(text: str) -> None:
    """Refuses a query with `SERVICE` in it, which would have a store call other addresses.

    The word is looked for in text and comments too: where those end is for the parser to know, and one that is taken
    in by a comment would call out.

    Raises:
        GraphRefusedError: the word is there.
    """
    plain = _NAMES.sub(" ", _ESCAPE.sub(_unescaped, text))
    if "service" in plain.lower():
        raise GraphRefusedError("SERVICE is not allowed, nor is the word in text or comments: nothing is called")


def _unescaped(match: re.Match[str]) -> str:
    code = int(match[1] or match[2], 16)
    return chr(code) if code <= _LARGEST_CODE_POINT else ""
