"""Parses RDF files to triples, without access to the network."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO, Final, cast

from backend.graphs.graph import GraphRefusedError

if TYPE_CHECKING:
    from pyoxigraph import Triple

_LARGEST_JSON_LD_BYTES: Final = 16 * 2**20


def read_rdf(file: BinaryIO, ending: str, base_iri: str | None) -> "Iterator[Triple]":
    """Yields the triples of a file with the extension `.ttl`, `.nt`, `.nq`, `.trig` or `.jsonld`.

    Names of graphs are dropped. Blank nodes get labels that are unique across files.

    Raises:
        GraphRefusedError: the file is malformed; the message says where.
    """
    from pyoxigraph import RdfFormat, parse

    form = RdfFormat.from_extension(ending.removeprefix("."))
    assert form is not None, "manifests allow known extensions only"
    try:
        source = cast("BinaryIO", _BoundedFile(file)) if form == RdfFormat.JSON_LD else file
        for quad in parse(source, form, base_iri=base_iri, rename_blank_nodes=True):
            yield quad.triple
    except (SyntaxError, ValueError, MemoryError) as error:
        reason = str(error)
        if "LoadDocumentCallback" in reason:
            reason = "it refers to a JSON-LD context on the network, which is never fetched: write it into the file"
        raise GraphRefusedError(reason) from error


class _BoundedFile:
    """A file of JSON-LD with a limited size, because the parser holds whole objects in memory."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._left = _LARGEST_JSON_LD_BYTES

    def read(self, size: int = -1) -> bytes:
        part = self._file.read(size)
        self._left -= len(part)
        if self._left < 0:
            raise GraphRefusedError("a file of JSON-LD may have 16 MiB")
        return part
