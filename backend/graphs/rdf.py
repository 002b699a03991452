"""Reads RDF files as triples; nothing is ever fetched from the network."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO, Final, cast

from backend.graphs.graph import GraphRefusedError

if TYPE_CHECKING:
    from pyoxigraph import Triple

_LARGEST_JSON_LD_BYTES: Final = 16 * 2**20


def read_rdf(file: BinaryIO, ending: str, base_iri: str | None) -> "Iterator[Triple]":
    """The triples of a file that ends with `.ttl`, `.nt`, `.nq`, `.trig` or `.jsonld`.

    Names of graphs in it are left out. Blank nodes get labels that no other file has.

    Raises:
        GraphRefusedError: the file is malformed; the message says where.
    """
    from pyoxigraph import RdfFormat, parse

    form = RdfFormat.from_extension(ending.removeprefix("."))
    assert form is not None, "every ending of a manifest is known"
    try:
        whole = cast("BinaryIO", _Bounded(file)) if form == RdfFormat.JSON_LD else file
        for quad in parse(whole, form, base_iri=base_iri, rename_blank_nodes=True):
            yield quad.triple
    except (SyntaxError, ValueError, MemoryError) as error:
        reason = str(error)
        if "LoadDocumentCallback" in reason:
            reason = "it refers to a JSON-LD context on the network, which is never fetched: write it into the file"
        raise GraphRefusedError(reason) from error


class _Bounded:
    """A file of JSON-LD: the parser holds an object in memory until it ends, which may be the whole of the file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._left = _LARGEST_JSON_LD_BYTES

    def read(self, size: int = -1) -> bytes:
        part = self._file.read(size)
        self._left -= len(part)
        if self._left < 0:
            raise GraphRefusedError("a file of JSON-LD may have 16 MiB")
        return part
