"""Program of confined processes that parse files to triples: RDF, and rows by a mapping (docs/knowledge-graphs.md).

See `backend.isolation.confined`.
"""

import csv
import importlib
import io
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, cast
from urllib.parse import quote

from backend.common.json_text import JsonMapping
from backend.isolation.confined import Arguments, JobFailedError
from backend.resources.graphs.graph import GraphRefusedError

if TYPE_CHECKING:
    from pyoxigraph import Literal, NamedNode, Triple


_RDF_TYPE: Final = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
_XSD: Final = "http://www.w3.org/2001/XMLSchema#"
_DATATYPES: Final[Mapping[type, str]] = {bool: f"{_XSD}boolean", int: f"{_XSD}integer", float: f"{_XSD}double"}
_PLACEHOLDER: Final = re.compile(r"\{([^{}]+)\}")
# Bytes of a line of JSON, or characters of all lines of a row of CSV.
_LONGEST_ROW: Final = 4 * 2**20
_TOO_LONG: Final = "it is longer than 4 MiB"

"""Mapping of a manifest, or one of its columns."""


def read_rows(file: BinaryIO, ending: str, mapping: JsonMapping) -> "Iterator[Triple]":
    """Yields the triples of a file with the extension `.csv` or `.jsonl`; empty cells and nulls give none.

    Raises:
        GraphRefusedError: the file is malformed or does not fit the mapping; the message says in which row.
    """
    rows = _csv(file, mapping) if ending == ".csv" else _json_lines(file)
    number = 1
    try:
        while (row := next(rows, None)) is not None:
            yield from _triples(row, mapping)
            number += 1
    except (ValueError, csv.Error, RecursionError) as error:
        reason = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error) or "it is nested too deeply"
        raise GraphRefusedError(f"row {number}: {reason}") from error


def _csv(file: BinaryIO, mapping: JsonMapping) -> Iterator[JsonMapping]:
    text = io.TextIOWrapper(file, "utf-8-sig", newline="")
    row_characters = 0

    def lines() -> Iterator[str]:
        nonlocal row_characters
        while line := text.readline(_LONGEST_ROW + 1 - row_characters):
            row_characters += len(line)
            if row_characters > _LONGEST_ROW:
                raise ValueError(_TOO_LONG)
            yield line

    reader = csv.DictReader(lines(), strict=True)
    header = reader.fieldnames or []
    for column in _columns_of(mapping):
        if column not in header:
            raise ValueError(f"there is no column '{column}'")
    for row in reader:
        if None in row:
            raise ValueError("the row has more cells than the header")
        yield {name: value for name, value in row.items() if value}
        row_characters = 0


def _json_lines(file: BinaryIO) -> Iterator[JsonMapping]:
    while line := file.readline(_LONGEST_ROW + 1):
        if len(line) > _LONGEST_ROW:
            raise ValueError(_TOO_LONG)
        if line.strip():
            row = json.loads(line)
            if not isinstance(row, dict):
                raise ValueError("the line is no JSON object")
            yield {name: value for name, value in row.items() if value is not None}


def _columns_of(mapping: JsonMapping) -> set[str]:
    templates = [mapping["subject"], *(column["iri"] or "" for column in mapping["columns"].values())]
    return {*mapping["columns"], *(name for template in templates for name in _PLACEHOLDER.findall(template))}


def _triples(row: JsonMapping, mapping: JsonMapping) -> "Iterator[Triple]":
    from pyoxigraph import NamedNode, Triple

    subject = _iri(mapping["subject"], row)
    if mapping["type"]:
        yield Triple(subject, NamedNode(_RDF_TYPE), NamedNode(mapping["type"]))
    for name, column in mapping["columns"].items():
        predicate = NamedNode(column["predicate"])
        found = row.get(name)
        for value in found if isinstance(found, list) else [found]:
            if value is not None:
                yield Triple(subject, predicate, _object(name, value, column, row))


def _object(name: str, value: object, column: JsonMapping, row: JsonMapping) -> "Literal | NamedNode":
    from pyoxigraph import Literal, NamedNode

    if column["iri"] is not None:
        # Each member of a list gives a triple, so the template gets the member.
        return _iri(column["iri"], {**row, name: value})
    datatype = column["datatype"] or _DATATYPES.get(type(value))
    return Literal(_text(name, value), datatype=NamedNode(datatype) if datatype else None)


def _iri(template: str, row: JsonMapping) -> "NamedNode":
    """Fills the placeholders of a template; in one that is a single placeholder, the value is the IRI, unquoted."""
    from pyoxigraph import NamedNode

    single = _PLACEHOLDER.fullmatch(template) is not None

    def fill(match: re.Match[str]) -> str:
        name = match[1]
        value = _text(name, row[name]) if name in row else ""
        if not value:
            raise ValueError(f"column '{name}' is empty, which the template {template} needs")
        return value if single else quote(value, safe="")

    return NamedNode(_PLACEHOLDER.sub(fill, template))


def _text(name: str, value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return json.dumps(value, allow_nan=False)
    raise ValueError(f"column '{name}' holds neither text, a number nor true or false")


_LARGEST_JSON_LD_BYTES: Final = 16 * 2**20


def configure(_configuration: object, _scratch: Path | None) -> None:
    """Imports modules that every file needs."""
    importlib.import_module("backend.resources.graphs.triple_json")


def parse_file(arguments: Arguments, descriptors: Sequence[int]) -> dict[str, int]:
    """Appends the triples of the file at the first descriptor to the file at the second, and counts them.

    `ending` is the extension of the file; with a `mapping` it has rows. `triples` and `characters` (of the triples as
    N-Triples) are the remainders of the limits `most_triples` and `most_characters`, which messages name.
    """
    from backend.resources.graphs.triple_json import write_triples

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


class _Counter:
    """Counter of triples and their characters, with limits."""

    def __init__(self, arguments: Arguments) -> None:
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


OPERATIONS = {"parse": parse_file}
