"""Fields of knowledge graphs, and of entries of `publish` in workflows (docs/knowledge-graphs.md)."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from backend.workflows.manifests.shapes import (
    HTTP_ADDRESS,
    SECRET_NAME,
    Checked,
    Either,
    Field,
    MapOf,
    OneOf,
    Record,
    Text,
)

RDF_ENDINGS: Final = (".ttl", ".nt", ".nq", ".trig", ".jsonld")
ROW_ENDINGS: Final = (".csv", ".jsonl")

_CHARACTERS: Final = r"[^\x00-\x20\x7f<>\"{}|^`\\]"
_IRI: Final = re.compile(rf"[A-Za-z][A-Za-z0-9+.-]*:{_CHARACTERS}+")
_PLACEHOLDER: Final = r"\{[^{}\x00-\x1f]{1,200}\}"
_TEMPLATE: Final = re.compile(rf"[A-Za-z][A-Za-z0-9+.-]*:(?:{_CHARACTERS}|{_PLACEHOLDER})*|{_PLACEHOLDER}")


def _template(value: object) -> str:
    if (
        isinstance(value, str)
        and len(value) <= 2_048
        and _TEMPLATE.fullmatch(value)
        and re.search(_PLACEHOLDER, value) is not None
    ):
        return value
    raise ValueError("must be an absolute IRI with columns in braces, as https://example.org/invoice/{id}")


def _iri() -> Text:
    return Text(2_048, pattern=_IRI, must_be="an absolute IRI")


_BASE: Final[Mapping[str, Field]] = {
    "base_iri": Field(
        Text(
            1_024,
            pattern=re.compile(rf"{_IRI.pattern}(?<=[/#:])"),
            must_be="an absolute IRI that ends with /, # or :",
        )
    ),
}

GRAPH_STORES: Final[Mapping[str, Record]] = {
    "folder": Record(_BASE),
    "sparql": Record(
        {
            **_BASE,
            "endpoint_url": Field(HTTP_ADDRESS, required=True),
            "update_url": Field(HTTP_ADDRESS, required=True),
            "secret": Field(SECRET_NAME),
            "auth": Field(OneOf("bearer", "basic"), default="bearer"),
        }
    ),
}

_COLUMN: Final = Record(
    {
        "predicate": Field(_iri(), required=True),
        "datatype": Field(_iri()),
        "iri": Field(Checked(_template)),
    }
)

_MAPPING: Final = Record(
    {
        "subject": Field(Checked(_template), required=True),
        "type": Field(_iri()),
        "columns": Field(MapOf(Either(_iri(), "predicate", _COLUMN), most=256, longest=200), default={}),
    }
)

PUBLICATION_FIELDS: Final[Mapping[str, Field]] = {
    "files": Field(Text(200, pattern=re.compile(r"[^\x00-\x1f]+"), must_be="a pattern as *.ttl")),
    "mapping": Field(_MAPPING),
}


def publication_problems(entry: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yields the problems between the fields of an entry of `publish`, each as path and reason."""
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
