"""Fields of knowledge graphs, and of entries of `publish` in workflows (docs/knowledge-graphs.md)."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from backend.common.json_text import JsonMapping
from backend.services.workflows.manifests.names import RDF_ENDINGS, ROW_ENDINGS
from backend.services.workflows.manifests.records import Either, Field, MapOf, Record
from backend.services.workflows.manifests.shapes import (
    HTTP_ADDRESS,
    SECRET_NAME,
    CheckedValue,
    OneOf,
    Text,
    whole_value,
)

_CHARACTERS: Final = r"[^\x00-\x20\x7f<>\x22{}|^`\\]"
_IRI: Final = re.compile(rf"[A-Za-z][A-Za-z0-9+.-]*:{_CHARACTERS}+")
_PLACEHOLDER: Final = r"\{[^{}\x00-\x1f]{1,200}\}"
_TEMPLATE: Final = re.compile(rf"[A-Za-z][A-Za-z0-9+.-]*:(?:{_CHARACTERS}|{_PLACEHOLDER})*|{_PLACEHOLDER}")


_LONGEST: Final = 2_048
_TEMPLATE_MUST_BE: Final = "must be an absolute IRI with columns in braces, as https://example.org/invoice/{id}"


def _template(value: object) -> str:
    if (
        isinstance(value, str)
        and len(value) <= _LONGEST
        and _TEMPLATE.fullmatch(value)
        and re.search(_PLACEHOLDER, value) is not None
    ):
        return value
    raise ValueError(_TEMPLATE_MUST_BE)


_IRI_TEXT: Final = Text(_LONGEST, pattern=_IRI, must_be="an absolute IRI")
_IRI_TEMPLATE: Final = CheckedValue(
    _template,
    {
        "type": "string",
        "maxLength": _LONGEST,
        "pattern": whole_value(_TEMPLATE),
        "patternErrorMessage": _TEMPLATE_MUST_BE,
    },
)

_BASE: Final[Mapping[str, Field]] = {
    "base_iri": Field(
        Text(
            1_024,
            pattern=re.compile(rf"{_IRI.pattern}(?<=[/#:])"),
            must_be="an absolute IRI that ends with /, # or :",
        ),
        about="Beginning of the names of the graphs of runs, and what relative IRIs are resolved against.",
        example="https://example.org/facts/",
    ),
}

GRAPH_STORES: Final[Mapping[str, Record]] = {
    "folder": Record(_BASE),
    "sparql": Record(
        {
            **_BASE,
            "endpoint_url": Field(
                HTTP_ADDRESS, required=True, about="Where queries go.", example="https://graph.example.org/query"
            ),
            "update_url": Field(
                HTTP_ADDRESS, required=True, about="Where updates go.", example="https://graph.example.org/update"
            ),
            "secret": Field(
                SECRET_NAME, about="Name of a secret of the deployment with the credentials.", example="graph-token"
            ),
            "auth": Field(OneOf("bearer", "basic"), default="bearer", about="How the secret is sent.", example="basic"),
        }
    ),
}

_COLUMN: Final = Record(
    {
        "predicate": Field(
            _IRI_TEXT, required=True, about="Predicate of the column's triples.", example="https://schema.org/name"
        ),
        "datatype": Field(
            _IRI_TEXT,
            about="Datatype of the values; plain text without one. Not beside `iri`.",
            example="http://www.w3.org/2001/XMLSchema#decimal",
        ),
        "iri": Field(
            _IRI_TEMPLATE,
            about="Makes the values IRIs, with columns in braces.",
            example="https://example.org/customer/{customer}",
        ),
    }
)

_MAPPING: Final = Record(
    {
        "subject": Field(
            _IRI_TEMPLATE,
            required=True,
            about="The subject of a row's triples, with columns in braces.",
            example="https://example.org/invoice/{id}",
        ),
        "type": Field(_IRI_TEXT, about="Class of the subjects.", example="https://schema.org/Invoice"),
        "columns": Field(
            MapOf(Either(_IRI_TEXT, "predicate", _COLUMN), most=256, longest=200),
            default={},
            about="By column: its predicate, or an object that says more.",
            example={"total": "https://schema.org/totalPaymentDue"},
        ),
    }
)

PUBLICATION_FIELDS: Final[Mapping[str, Field]] = {
    "files": Field(
        Text(200, pattern=re.compile(r"[^\x00-\x1f]+"), must_be="a pattern as *.ttl"),
        about="Which output files are published, as a pattern; all files of triples without one.",
        example="*.csv",
    ),
    "mapping": Field(
        _MAPPING,
        about="Makes triples of the rows of CSV and JSON Lines files.",
        example={"subject": "https://example.org/invoice/{id}", "type": "https://schema.org/Invoice"},
    ),
}


def publication_problems(entry: JsonMapping) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yields contradictions between the fields of an entry of `publish`, each as path and reason."""
    mapping = entry.get("mapping")
    files = entry.get("files")
    if files and files.endswith(ROW_ENDINGS) and mapping is None:
        yield ("files",), "must not name rows without a mapping that makes triples of them"
    if files and files.endswith(RDF_ENDINGS) and mapping is not None:
        yield ("mapping",), "must not be there when files names no rows"
    if mapping is None:
        return
    if mapping.get("type") is None and not mapping.get("columns"):
        yield ("mapping",), "must have a type or columns: it makes no triple"
    for name, column in (mapping.get("columns") or {}).items():
        if column and column.get("datatype") is not None and column.get("iri") is not None:
            yield (
                ("mapping", "columns", name, "iri"),
                "must not be there beside datatype: a value is the one or the other",
            )
