"""Writes the tables of docs/manifests.md and the console's schema from the rules of manifests.

With `--check` it fails if they differ.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from backend.services.workflows.manifests.kinds import KINDS, manifest_schema
from backend.services.workflows.manifests.records import Either, Field, ListOf, MapOf, Record, Variant
from backend.services.workflows.manifests.shapes import Shape

PAGE = Path(__file__).resolve().parent.parent / "docs" / "manifests.md"
SCHEMA = PAGE.parent.parent / "console" / "static" / "manifest-schema.json"
HEAD = "| Field | Value | Default | Meaning |\n|---|---|---|---|\n"
_TABLE = re.compile(r"<!-- fields of (?P<title>[^>]+) -->\n(?P<table>(?:\|[^\n]*\n)*)")
_MOST_WORDS = 8
_NAMED = {
    "text, 1-80 characters: one line of text without blanks around it": "name",
    "text, 1-128 characters: lowercase letters, digits and dashes": "handle",
    "text, 1-64 characters: the name of a secret, of A-Z a-z 0-9 _ -": "secret",
    "text, 1-1,024 characters: a path as agents/digest": "path",
    "text, 1-1,024 characters: a path as digest.py": "path",
    "text, 1-2,048 characters: an http or https address": "address",
    "text, 1-2,048 characters: an absolute IRI": "IRI",
    "text, 0-2,048 characters: an absolute IRI with columns in braces, as https://example.org/invoice/{id}": "template",
}
"""Forms that the page explains once."""
# Number of types from which on their common fields have a table of their own.
_MANY = 4


def tables() -> dict[str, str]:
    """Returns the table of every kind, of its types, and of the entries of its lists, by title."""
    found: dict[str, str] = {}
    for kind, rules in KINDS.items():
        for title, record in _records(kind, rules):
            # Every document has a name, which the page describes above its tables.
            fields = {name: field for name, field in record.fields.items() if name != "name" or "." in title}
            rows = "".join(f"| {' | '.join(_cell(cell) for cell in row)} |\n" for row in _rows(fields))
            if (twin := next((each for each, table in found.items() if table == HEAD + rows), None)) is not None:
                del found[twin]
                title = f"{twin} or {title.rpartition(' ')[2]}"  # noqa: PLW2901 - types with equal fields share a table
            found[title] = HEAD + rows
    return found


def with_tables(page: str) -> str:
    """Returns the page with every table made from the rules.

    Raises:
        ValueError: the page lacks a table, or has one too many.
    """
    wanted = tables()
    present = {found["title"] for found in _TABLE.finditer(page)}
    if different := wanted.keys() ^ present:
        raise ValueError(f"docs/manifests.md needs one line `<!-- fields of TITLE -->` each for: {sorted(different)}")
    return _TABLE.sub(lambda found: f"<!-- fields of {found['title']} -->\n{wanted[found['title']]}", page)


def _records(title: str, shape: Shape) -> Iterator[tuple[str, Record]]:
    """Yields the records that have a table of their own, each with its title."""
    if isinstance(shape, Variant):
        common = shape.common_fields() if len(shape.records) >= _MANY else {}
        if common:
            yield title, Record(common)
        for word, inner in shape.records.items():
            if isinstance(inner, Variant) or inner.fields.keys() - common:
                yield from _records(f"{title}, {shape.tag} {word}", _without_fields(inner, common))
    elif isinstance(shape, Record):
        yield title, shape
        for name, field in shape.fields.items():
            if isinstance(field.shape, ListOf):
                yield from _records(f"{title}.{name}", field.shape.member)


def _without_fields(shape: Record | Variant, common: Mapping[str, Field]) -> Record | Variant:
    if isinstance(shape, Variant):
        return shape
    return Record({name: field for name, field in shape.fields.items() if name not in common})


def _rows(fields: Mapping[str, Field], above: str = "") -> Iterator[tuple[str, ...]]:
    for name, field in fields.items():
        yield (
            f"`{above}{name}`",
            _form(field.shape.json_schema()),
            _default(field),
            field.about,
        )
        yield from _rows(_members(field.shape), f"{above}{name}.")


def _members(shape: Shape) -> Mapping[str, Field]:
    """Returns the fields shown below a row: those of an object, or of the objects in a mapping."""
    match shape:
        case Record():
            return shape.fields
        case MapOf(member=Either(record=record)):
            return {f"*.{name}": field for name, field in record.fields.items()}
    return {}


def _default(field: Field) -> str:
    if field.required:
        return "required"
    if isinstance(field.shape, Record):
        return "of its fields" if field.default else ""
    return "" if field.default is None else f"`{_json(field.default)}`"


def _form(schema: Mapping[str, Any]) -> str:
    """Describes a JSON Schema in words."""
    form = "any value"
    match schema:
        case {"const": word}:
            form = f"`{word}`"
        case {"enum": list(words)}:
            form = _words(words)
        case {"type": "object", "properties": _}:
            form = "object"
        case {"anyOf": list(ways)}:
            form = ", or ".join(_form(way) for way in ways)
        case {"type": "array"}:
            form = _list(schema)
        case {"type": "object", "maxProperties": most}:
            form = f"object of at most {most:,} members"
        case {"type": "integer" | "number" as kind, "minimum": least, "maximum": most}:
            steps = f" in steps of {schema['multipleOf']:g}" if "multipleOf" in schema else ""
            form = f"{kind}, {least:,}-{most:,}{steps}"
        case {"type": "string"}:
            form = _text(schema)
        case {"type": str(kind)}:
            form = kind
    return form


def _words(words: list[Any]) -> str:
    if isinstance(words[0], float):
        return f"number, {words[0]:g}-{words[-1]:g} in steps of {round(words[1] - words[0], 6):g}"
    if len(words) > _MOST_WORDS:
        return f"one of {len(words)} words, as `{words[0]}`"
    return " or ".join(filter(None, (", ".join(f"`{word}`" for word in words[:-1]), f"`{words[-1]}`")))


def _list(schema: Mapping[str, Any]) -> str:
    least, most, items = schema.get("minItems", 0), schema.get("maxItems"), schema["items"]
    count = "" if most is None else f", {least}-{most:,}" if least else f", at most {most:,}"
    if not items or items.get("type") == "object":
        return f"list{count}"
    return f"list{count}{' different' if schema.get('uniqueItems') else ''}: {_form(items)}"


def _text(schema: Mapping[str, Any]) -> str:
    least, most = schema.get("minLength", 0), schema.get("maxLength")
    length = "" if most is None else f", {least:,}-{most:,} characters"
    rule = schema.get("patternErrorMessage", "").removeprefix("must be ")
    form = f"text{length}{': ' if rule else ''}{rule}"
    return _NAMED.get(form, form)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def schema_text() -> str:
    """Returns the JSON Schema of a manifest, from which the console's editor completes; one line a value."""
    return json.dumps(manifest_schema(), ensure_ascii=False, indent=0, separators=(",", ":")) + "\n"


def main() -> int:
    """Rewrites both files, or with `--check` compares them; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="Change nothing; exit with 1 if something would change.")
    arguments = parser.parse_args()
    wanted = {PAGE: with_tables(PAGE.read_text(encoding="utf-8")), SCHEMA: schema_text()}
    for path, text in wanted.items():
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        if arguments.check:
            print(f"{path} differs from the rules: run scripts/manifest_reference.py", file=sys.stderr)
            return 1
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
