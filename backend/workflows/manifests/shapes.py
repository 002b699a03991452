"""Types of the fields of manifests: each reads a node, and reports what is allowed if the node is not valid."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from backend import addresses, secrets
from backend.workflows.manifests.nodes import Node, Problem, member

INVALID: Final = None
"""Returned in place of a value that is not valid, after a problem was added."""


class Shape(Protocol):
    """Type of a field."""

    def read(self, node: Node, name: str, problems: list[Problem]) -> Any:
        """Returns the value as JSON has it, with defaults filled in; adds its problems to `problems`."""


@dataclass(frozen=True)
class Text:
    """Text of `shortest` to `longest` code points that matches `pattern`, which `must_be` describes in messages."""

    longest: int
    shortest: int = 1
    pattern: re.Pattern[str] | None = None
    must_be: str = ""

    def read(self, node: Node, name: str, problems: list[Problem]) -> Any:
        """Reads text."""
        value = node.value
        if not isinstance(value, str):
            reason = "must be text"
            if isinstance(value, int | float):
                reason += "; put it in quotes"
        elif not self.shortest <= len(value) <= self.longest:
            reason = f"must have {self.shortest:,} to {self.longest:,} characters"
        elif self.pattern and not self.pattern.fullmatch(value):
            reason = f"must be {self.must_be}"
        else:
            return value
        problems.append(Problem(node.line, name, reason))
        return INVALID


HTTP_ADDRESS: Final = Text(2_048, pattern=addresses.HTTP_ADDRESS, must_be="an http or https address")
SECRET_NAME: Final = Text(64, pattern=secrets.NAME, must_be="the name of a secret")


@dataclass(frozen=True)
class Whole:
    """An integer within bounds; neither booleans nor 1.0."""

    minimum: int
    maximum: int

    def read(self, node: Node, name: str, problems: list[Problem]) -> Any:
        """Reads an integer."""
        value = node.value
        if isinstance(value, int) and not isinstance(value, bool) and self.minimum <= value <= self.maximum:
            return value
        problems.append(Problem(node.line, name, f"must be an integer from {self.minimum:,} to {self.maximum:,}"))
        return INVALID


@dataclass(frozen=True)
class Flag:
    """True or false."""

    def read(self, node: Node, name: str, problems: list[Problem]) -> Any:
        """Reads a boolean."""
        if isinstance(node.value, bool):
            return node.value
        problems.append(Problem(node.line, name, "must be true or false"))
        return INVALID


class OneOf:
    """One of a few words."""

    def __init__(self, *words: str) -> None:
        self._words = words

    def read(self, node: Node, name: str, problems: list[Problem]) -> Any:
        """Reads one of the words."""
        if isinstance(node.value, str) and node.value in self._words:
            return node.value
        problems.append(Problem(node.line, name, f"must be one of: {', '.join(self._words)}"))
        return INVALID


@dataclass(frozen=True)
class Anything:
    """Any JSON value."""

    def read(self, node: Node, name: str, problems: list[Problem]) -> Any:  # noqa: ARG002 - a Shape like the others
        """Reads any value."""
        return node.plain()


@dataclass(frozen=True)
class Checked:
    """A value that a function normalises, or refuses by a ValueError that says what is allowed."""

    check: Callable[[Any], Any]

    def read(self, node: Node, name: str, problems: list[Problem]) -> Any:
        """Reads a value that the function accepts."""
        try:
            return self.check(node.plain())
        except ValueError as error:
            problems.append(Problem(node.line, name, str(error)))
            return INVALID


@dataclass(frozen=True)
class ListOf:
    """A list of up to `most` members, all different if `unique`; a member that is not valid becomes INVALID."""

    member: Shape
    most: int
    least: int = 0
    unique: bool = False

    def read(self, node: Node, name: str, problems: list[Problem]) -> Any:
        """Reads a list."""
        if not isinstance(node.value, list):
            problems.append(Problem(node.line, name, "must be a list"))
            return INVALID
        if not self.least <= len(node.value) <= self.most:
            allowed = f"at most {self.most:,}" if not self.least else f"{self.least:,} to {self.most:,}"
            problems.append(Problem(node.line, name, f"must have {allowed} entries"))
            return INVALID
        values: list[Any] = []
        for index, item in enumerate(node.value):
            inner = f"{name}[{index}]"
            value = self.member.read(item, inner, problems)
            if self.unique and value is not INVALID and value in values:
                problems.append(Problem(item.line, inner, "must not be there twice"))
            values.append(value)
        return values


@dataclass(frozen=True)
class MapOf:
    """An object of up to `most` members of one shape, under arbitrary names of up to `longest` characters."""

    member: Shape
    most: int
    longest: int

    def read(self, node: Node, name: str, problems: list[Problem]) -> Any:
        """Reads an object."""
        if not isinstance(node.value, dict) or len(node.value) > self.most:
            problems.append(Problem(node.line, name, f"must be an object of at most {self.most:,} members"))
            return INVALID
        values: dict[str, Any] = {}
        for given, inner in node.value.items():
            if 1 <= len(given) <= self.longest:
                values[given] = self.member.read(inner, member(name, given), problems)
            else:
                problems.append(
                    Problem(inner.line, member(name, given), f"must have a name of 1 to {self.longest:,} characters")
                )
        return values


@dataclass(frozen=True)
class Field:
    """A field of a record: its shape, and whether it is required or which default it has."""

    shape: Shape
    required: bool = False
    default: Any = None


@dataclass(frozen=True)
class Record:
    """An object of known fields; an unknown field is refused, and null counts as absent."""

    fields: Mapping[str, Field]
    also: tuple[str, ...] = ()
    """Further known fields, which the enclosing shapes read."""

    def beside(self, name: str) -> "Record":
        """Returns a copy with one more known field, which the enclosing shape reads."""
        return Record(self.fields, tuple(dict.fromkeys((*self.also, name))))

    def defaults(self) -> dict[str, Any]:
        """Returns the value of an empty object."""
        return {name: entry.default for name, entry in self.fields.items()}

    def read(self, node: Node, name: str, problems: list[Problem]) -> Any:
        """Reads an object; a field that is not valid is INVALID or missing in it."""
        if not isinstance(node.value, dict):
            problems.append(Problem(node.line, name or "document", "must be an object"))
            return INVALID
        for given, inner in node.value.items():
            if given not in self.fields and given not in self.also:
                known = ", ".join((*self.also, *self.fields))
                problems.append(Problem(inner.line, member(name, given), f"is not a known field; known are: {known}"))
        values: dict[str, Any] = {}
        for expected, entry in self.fields.items():
            inner = node.value.get(expected)
            if inner is not None and inner.value is not None:
                values[expected] = entry.shape.read(inner, member(name, expected), problems)
            elif entry.required:
                problems.append(Problem(node.line, member(name, expected), "is required"))
            else:
                values[expected] = entry.default
        return values


@dataclass(frozen=True)
class Either:
    """A record, or the text of its field `short` as an abbreviation of a record with that field alone."""

    text: Text
    short: str
    record: Record

    def read(self, node: Node, name: str, problems: list[Problem]) -> Any:
        """Reads text or an object."""
        if isinstance(node.value, dict):
            return self.record.read(node, name, problems)
        value = self.text.read(node, name, problems)
        return INVALID if value is INVALID else {**self.record.defaults(), self.short: value}


class Variant:
    """An object whose field `tag` selects its record; `default` is the value of an absent tag."""

    def __init__(self, tag: str, records: "Mapping[str, Record | Variant]", default: str | None = None) -> None:
        self._tag = tag
        self._default = default
        self._word = OneOf(*records)
        self._records = {word: record.beside(tag) for word, record in records.items()}

    def beside(self, name: str) -> "Variant":
        """Returns a copy with one more known field, which the enclosing shape reads."""
        return Variant(self._tag, {word: record.beside(name) for word, record in self._records.items()}, self._default)

    def read(self, node: Node, name: str, problems: list[Problem]) -> Any:
        """Reads the tag, then the record that it selects; the tag is the first field of the value."""
        if not isinstance(node.value, dict):
            problems.append(Problem(node.line, name or "document", "must be an object"))
            return INVALID
        inner = member(name, self._tag)
        tag = node.value.get(self._tag)
        if tag is None and self._default is None:
            problems.append(Problem(node.line, inner, "is required"))
            return INVALID
        word = self._default if tag is None else self._word.read(tag, inner, problems)
        if word is INVALID:
            return INVALID
        values = self._records[word].read(node, name, problems)
        return INVALID if values is INVALID else {self._tag: word, **values}
