"""Reads RDF files as triples; nothing is ever fetched from the network."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

from backend.graphs.graph import GraphRefusedError

if TYPE_CHECKING:
    from pyoxigraph import Triple


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
        for quad in parse(file, form, base_iri=base_iri, rename_blank_nodes=True):
            yield quad.triple
    except (SyntaxError, ValueError) as error:
        reason = str(error)
        if "LoadDocumentCallback" in reason:
            reason = "it refers to a JSON-LD context on the network, which is never fetched: write it into the file"
        raise GraphRefusedError(reason) from error
