"""Converts rows, of CSV or JSON Lines, to triples by a mapping (docs/knowledge-graphs.md)."""

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO, Final
from urllib.parse import quote

from backend.graphs.graph import GraphRefusedError

if TYPE_CHECKING:
    from pyoxigraph import Literal, NamedNode, Triple

_RDF_TYPE: Final = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
_XSD: Final = "http://www.w3.org/2001/XMLSchema#"
_DATATYPES: Final[Mapping[type, str]] = {bool: f"{_XSD}boolean", int: f"{_XSD}integer", float: f"{_XSD}double"}
_PLACEHOLDER: Final = re.compile(r"\{([^{}]+)\}")
# Bytes of a line of JSON, or characters of all lines of a row of CSV.
_LONGEST_ROW: Final = 4 * 2**20
_TOO_LONG: Final = "it is longer than 4 MiB"

Row = Mapping[str, Any]


def read_rows(file: BinaryIO, ending: str, mapping: Mapping[str, Any]) -> "Iterator[Triple]":
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


def _csv(file: BinaryIO, mapping: Mapping[str, Any]) -> Iterator[Row]:
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


def _json_lines(file: BinaryIO) -> Iterator[Row]:
    while line := file.readline(_LONGEST_ROW + 1):
        if len(line) > _LONGEST_ROW:
            raise ValueError(_TOO_LONG)
        if line.strip():
            row = json.loads(line)
            if not isinstance(row, dict):
                raise ValueError("the line is no JSON object")
            yield {name: value for name, value in row.items() if value is not None}


def _columns_of(mapping: Mapping[str, Any]) -> set[str]:
    templates = [mapping["subject"], *(column["iri"] or "" for column in mapping["columns"].values())]
    return {*mapping["columns"], *(name for template in templates for name in _PLACEHOLDER.findall(template))}


def _triples(row: Row, mapping: Mapping[str, Any]) -> "Iterator[Triple]":
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


def _object(name: str, value: Any, column: Mapping[str, Any], row: Row) -> "Literal | NamedNode":
    from pyoxigraph import Literal, NamedNode

    if column["iri"] is not None:
        # Each member of a list gives a triple, so the template gets the member.
        return _iri(column["iri"], {**row, name: value})
    datatype = column["datatype"] or _DATATYPES.get(type(value))
    return Literal(_text(name, value), datatype=NamedNode(datatype) if datatype else None)


def _iri(template: str, row: Row) -> "NamedNode":
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


def _text(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return json.dumps(value, allow_nan=False)
    raise ValueError(f"column '{name}' holds neither text, a number nor true or false")
