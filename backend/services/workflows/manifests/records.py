"""Shapes of lists and objects in manifests, composed of other shapes; each reads a node and gives a JSON Schema."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from backend.common.errors import suggestion
from backend.common.json_text import JsonObject
from backend.services.workflows.manifests.nodes import DocumentNode, Problem, member
from backend.services.workflows.manifests.shapes import INVALID, JsonSchema, OneOf, Shape, Text


@dataclass(frozen=True)
class ListOf:
    """A list of up to `most` members, all different if `unique`; an invalid member becomes INVALID."""

    member: Shape
    most: int
    least: int = 0
    unique: bool = False

    def read(self, node: DocumentNode, name: str, problems: list[Problem]) -> Any:
        """Reads a list, and checks its length."""
        if not isinstance(node.value, list):
            problems.append(Problem(node.line, name, "must be a list"))
            return INVALID
        if not self.least <= len(node.value) <= self.most:
            allowed = f"at most {self.most:,}" if not self.least else f"{self.least:,} to {self.most:,}"
            problems.append(Problem(node.line, name, f"must have {allowed} entries"))
        values: list[object] = []
        for index, item in enumerate(node.value):
            inner = f"{name}[{index}]"
            value = self.member.read(item, inner, problems)
            if self.unique and value is not INVALID and value in values:
                problems.append(Problem(item.line, inner, "must not be there twice"))
            values.append(value)
        return values

    def json_schema(self) -> JsonSchema:
        """Returns the bounds, and the schema of a member."""
        schema: JsonSchema = {"type": "array", "items": self.member.json_schema(), "maxItems": self.most}
        if self.least:
            schema["minItems"] = self.least
        return {**schema, "uniqueItems": True} if self.unique else schema


@dataclass(frozen=True)
class MapOf:
    """An object with up to `most` members of one shape, with arbitrary names of up to `longest` characters."""

    member: Shape
    most: int
    longest: int

    def read(self, node: DocumentNode, name: str, problems: list[Problem]) -> Any:
        """Reads an object."""
        if not isinstance(node.value, dict) or len(node.value) > self.most:
            problems.append(Problem(node.line, name, f"must be an object of at most {self.most:,} members"))
            return INVALID
        values: JsonObject = {}
        for given, inner in node.value.items():
            if 1 <= len(given) <= self.longest:
                values[given] = self.member.read(inner, member(name, given), problems)
            else:
                problems.append(
                    Problem(inner.line, member(name, given), f"must have a name of 1 to {self.longest:,} characters")
                )
        return values

    def json_schema(self) -> JsonSchema:
        """Returns the bounds, and the schema of a member."""
        return {
            "type": "object",
            "additionalProperties": self.member.json_schema(),
            "maxProperties": self.most,
            "propertyNames": {"minLength": 1, "maxLength": self.longest},
        }


@dataclass(frozen=True)
class Field:
    """A field of a record: its shape, and whether it is required, else its default.

    `about` describes the field in the reference and in editors; `example` is a valid value.
    """

    shape: Shape
    required: bool = False
    default: object = None
    about: str = ""
    example: object = None

    def is_like(self, other: "Field") -> bool:
        """Returns whether another field has equal bounds and an equal description."""
        return (self.shape, self.required, self.default, self.about) == (
            other.shape,
            other.required,
            other.default,
            other.about,
        )

    def json_schema(self) -> JsonSchema:
        """Returns the schema of the shape with default, description and example; null counts as absent."""
        schema = self.shape.json_schema()
        if not self.required:
            schema = _or_null(schema)
            schema["default"] = self.default
        if self.about:
            schema["description"] = self.about
        return schema if self.example is None else {**schema, "examples": [self.example]}


def _or_null(schema: JsonSchema) -> JsonSchema:
    match schema:
        case {"enum": list(words)}:
            return {**schema, "enum": [*words, None]}
        case {"type": str(one)}:
            return {**schema, "type": [one, "null"]}
        case {"anyOf": list(ways)}:
            return {**schema, "anyOf": [*ways, {"type": "null"}]}
    return dict(schema)


_MOST_SUGGESTED: Final = 50
"""Problems up to which an unknown field gets a suggestion, which takes time."""


def _unknown(given: str, known: Sequence[str], *, suggest: bool) -> str:
    meant = suggestion(given, known) if suggest else ""
    return f"is not a known field{f'.{meant} Known' if meant else '; known'} are: {', '.join(known)}"


@dataclass(frozen=True)
class Record:
    """An object of known fields; an unknown field is refused, and null counts as absent."""

    fields: Mapping[str, Field]
    also: tuple[str, ...] = ()
    """Names of further fields, which enclosing shapes read."""

    def with_known_field(self, name: str) -> Self:
        """Returns a copy with one more known field, which the enclosing shape reads."""
        return replace(self, also=tuple(dict.fromkeys((*self.also, name))))

    def defaults(self) -> JsonObject:
        """Returns the value of an empty object."""
        return {name: entry.default for name, entry in self.fields.items()}

    def read(self, node: DocumentNode, name: str, problems: list[Problem]) -> Any:
        """Reads an object; an invalid field is INVALID or missing in the result."""
        if not isinstance(node.value, dict):
            problems.append(Problem(node.line, name or "document", "must be an object"))
            return INVALID
        for given, inner in node.value.items():
            if given not in self.fields and given not in self.also:
                reason = _unknown(given, (*self.also, *self.fields), suggest=len(problems) < _MOST_SUGGESTED)
                problems.append(Problem(inner.line, member(name, given), reason))
        values: JsonObject = {}
        for expected, entry in self.fields.items():
            inner = node.value.get(expected)
            if inner is not None and inner.value is not None:
                values[expected] = entry.shape.read(inner, member(name, expected), problems)
            elif entry.required:
                problems.append(Problem(node.line, member(name, expected), "is required"))
            else:
                values[expected] = entry.default
        return values

    def json_schema(self) -> JsonSchema:
        """Returns the schema of the fields, which allows no other fields."""
        required = [name for name, entry in self.fields.items() if entry.required]
        fields = {name: entry.json_schema() for name, entry in self.fields.items()}
        schema: JsonSchema = {
            "type": "object",
            "properties": {**dict.fromkeys(self.also, True), **fields},
            "additionalProperties": False,
        }
        return {**schema, "required": required} if required else schema


@dataclass(frozen=True)
class Either:
    """A record, or a text as short form of a record with only the field `short`."""

    text: Text
    short: str
    record: Record

    def read(self, node: DocumentNode, name: str, problems: list[Problem]) -> Any:
        """Reads text or an object."""
        if isinstance(node.value, dict):
            return self.record.read(node, name, problems)
        value = self.text.read(node, name, problems)
        return INVALID if value is INVALID else {**self.record.defaults(), self.short: value}

    def json_schema(self) -> JsonSchema:
        """Returns the schema of both forms."""
        return {"anyOf": [self.text.json_schema(), self.record.json_schema()]}


class Variant:
    """An object whose field `tag` selects its record; `default` is the value of an absent tag.

    `about` describes the tag in the reference and in editors.
    """

    def __init__(
        self, tag: str, records: "Mapping[str, Record | Variant]", default: str | None = None, about: str = ""
    ) -> None:
        self.tag = tag
        self.default = default
        self.about = about
        self._word = OneOf(*records)
        self.records = {word: record.with_known_field(tag) for word, record in records.items()}

    def with_known_field(self, name: str) -> "Variant":
        """Returns a copy with one more known field, which the enclosing shape reads."""
        records = {word: record.with_known_field(name) for word, record in self.records.items()}
        return Variant(self.tag, records, self.default, self.about)

    def read(self, node: DocumentNode, name: str, problems: list[Problem]) -> Any:
        """Reads the tag, then the record that it selects; the tag is the first field of the value."""
        if not isinstance(node.value, dict):
            problems.append(Problem(node.line, name or "document", "must be an object"))
            return INVALID
        inner = member(name, self.tag)
        tag = node.value.get(self.tag)
        if tag is None and self.default is None:
            problems.append(Problem(node.line, inner, "is required"))
            word = INVALID
        else:
            word = self.default if tag is None else self._word.read(tag, inner, problems)
        if word is INVALID:
            self._read_common(node, name, problems)
            return INVALID
        values = self.records[word].read(node, name, problems)
        return INVALID if values is INVALID else {self.tag: word, **values}

    def common_fields(self) -> dict[str, Field]:
        """Returns the fields that all records have in common."""
        first, *others = (
            record.fields if isinstance(record, Record) else record.common_fields() for record in self.records.values()
        )
        return {
            name: field
            for name, field in first.items()
            if all(name in other and other[name].is_like(field) for other in others)
        }

    def _read_common(self, node: DocumentNode, name: str, problems: list[Problem]) -> None:
        """Adds the problems of fields that all records have in common, for an object with an invalid tag."""
        for given, field in self.common_fields().items():
            inner = node.value.get(given)
            if inner is not None and inner.value is not None:
                field.shape.read(inner, member(name, given), problems)

    def json_schema(self) -> JsonSchema:
        """Returns the schema of the tag, and of the record that each value of the tag selects."""
        tag = self._word.json_schema()
        if self.about:
            tag["description"] = self.about
        if self.default is not None:
            tag["default"] = self.default
        choices = [
            {
                "if": {
                    "properties": {self.tag: {"const": word}},
                    # An absent field meets the condition too, which must only happen for the default.
                    **({} if word == self.default else {"required": [self.tag]}),
                },
                "then": record.json_schema(),
            }
            for word, record in self.records.items()
        ]
        schema: JsonSchema = {"type": "object", "properties": {self.tag: tag}, "allOf": choices}
        return schema if self.default is not None else {**schema, "required": [self.tag]}


NAME: Final = Text(
    80,
    pattern=re.compile(r"[^\s\x00-\x1f\x7f](?:[^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f])?"),
    must_be="one line of text without blanks around it",
)
HANDLE: Final = Text(128, pattern=re.compile(r"[a-z0-9-]+"), must_be="lowercase letters, digits and dashes")
LONG_TEXT: Final = Text(100_000)


def name_field(example: str) -> Field:
    """Returns the field with the name of a resource or workflow."""
    return Field(
        NAME, required=True, about="Name, unique within the kind; other documents refer to it.", example=example
    )
