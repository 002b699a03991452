"""The program of confined processes that parse files to triples; see `backend.confined`."""

import importlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backend.confined import JobFailedError
from backend.graphs.graph import GraphRefusedError
from backend.graphs.rdf import read_rdf
from backend.graphs.rows import read_rows

if TYPE_CHECKING:
    from pyoxigraph import Triple


def configure(_configuration: Any, _scratch: Path | None) -> None:
    """Imports modules that every file needs."""
    importlib.import_module("backend.graphs.triple_json")


def parse_file(arguments: Mapping[str, Any], descriptors: Sequence[int]) -> dict[str, int]:
    """Appends the triples of the file at the first descriptor to the file at the second, and counts them.

    `ending` is the extension of the file; with a `mapping` it has rows. `triples` and `characters`, of the triples as
    N-Triples, are what is left of the limits `most_triples` and `most_characters`, which messages name.
    """
    from backend.graphs.triple_json import write_triples

    counter = _Counter(arguments)
    try:
        with os.fdopen(os.dup(descriptors[0]), "rb") as source, os.fdopen(os.dup(descriptors[1]), "wb") as target:
            mapping = arguments["mapping"]
            triples = (
                read_rdf(source, arguments["ending"], arguments["base_iri"])
                if mapping is None
                else read_rows(source, arguments["ending"], mapping)
            )
            write_triples(target, counter.within_bounds(triples))
    except GraphRefusedError as error:
        raise JobFailedError(str(error)) from None
    except OSError:
        raise JobFailedError("there is no room on the service's disk for its triples", {"again": True}) from None
    return {"triples": counter.triples, "characters": counter.characters}


OPERATIONS = {"parse": parse_file}


class _Counter:
    """Counter of triples and their characters, with limits."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._arguments = arguments
        self.triples = 0
        self.characters = 0

    def within_bounds(self, triples: "Iterator[Triple]") -> "Iterator[Triple]":
        arguments = self._arguments
        for triple in triples:
            self.triples += 1
            self.characters += len(str(triple))
            if self.triples > arguments["triples"]:
                raise GraphRefusedError(f"with it there are more than {arguments['most_triples']:,} triples")
            if self.characters > arguments["characters"]:
                raise GraphRefusedError(
                    f"with it the triples have more than {arguments['most_characters']:,} characters"
                )
            yield triple
