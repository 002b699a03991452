"""Shapes of single values in manifests: each reads a node, and reports a problem if the node is invalid.

Each also gives its JSON Schema, by which editors check manifests, and from which the reference is generated.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from backend.common import deployment_terms, secrets
from backend.common.json_text import JsonMapping, JsonObject
from backend.services.workflows.manifests.nodes import DocumentNode, Problem

JsonSchema = JsonObject

INVALID: Final = None
"""Returned in place of an invalid value, after a problem was added."""


class Shape(Protocol):
    """Shape of a field: reads a node, and gives a JSON Schema."""

    def read(self, node: DocumentNode, name: str, problems: list[Problem]) -> object:
        """Returns the node's plain value with defaults filled in; adds its problems to `problems`."""

    def json_schema(self) -> JsonSchema:
        """Returns the JSON Schema (draft 2020-12) that every valid value fits."""


def whole_value(pattern: re.Pattern[str]) -> str:
    """Returns the pattern anchored at both ends, because a pattern of JSON Schema may match anywhere in a text."""
    return f"^(?:{pattern.pattern})$"


@dataclass(frozen=True)
class Text:
    """Text of `shortest` to `longest` code points that matches `pattern`, which `must_be` describes in messages."""

    longest: int
    shortest: int = 1
    pattern: re.Pattern[str] | None = None
    must_be: str = ""

    def read(self, node: DocumentNode, name: str, problems: list[Problem]) -> object:
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

    def json_schema(self) -> JsonSchema:
        """Returns the bounds, and the pattern with its error message for editors."""
        schema: JsonSchema = {"type": "string", "minLength": self.shortest, "maxLength": self.longest}
        if self.pattern:
            schema |= {"pattern": whole_value(self.pattern), "patternErrorMessage": f"must be {self.must_be}"}
        return schema


HTTP_ADDRESS: Final = Text(2_048, pattern=deployment_terms.HTTP_ADDRESS, must_be="an http or https address")
SECRET_NAME: Final = Text(64, pattern=secrets.NAME, must_be="the name of a secret, of A-Z a-z 0-9 _ -")


@dataclass(frozen=True)
class Whole:
    """An integer within bounds; neither booleans nor 1.0."""

    minimum: int
    maximum: int

    def read(self, node: DocumentNode, name: str, problems: list[Problem]) -> object:
        """Reads an integer."""
        value = node.typed
        if isinstance(value, int) and not isinstance(value, bool) and self.minimum <= value <= self.maximum:
            return value
        problems.append(Problem(node.line, name, f"must be an integer from {self.minimum:,} to {self.maximum:,}"))
        return INVALID

    def json_schema(self) -> JsonSchema:
        """Returns the bounds."""
        return {"type": "integer", "minimum": self.minimum, "maximum": self.maximum}


@dataclass(frozen=True)
class Number:
    """A number within bounds, a multiple of `step` if given; `null_means` describes null in messages."""

    minimum: float
    maximum: float
    step: float | None = None
    null_means: str = ""

    def read(self, node: DocumentNode, name: str, problems: list[Problem]) -> object:
        """Reads a number as a float."""
        value = node.typed
        if isinstance(value, int | float) and not isinstance(value, bool) and self._allows(value):
            return float(value)
        form = f"must be a number from {self.minimum:g} to {self.maximum:g}"
        if self.step is not None:
            form = f"must be from {self.minimum:g} to {self.maximum:g} in steps of {self.step:g}"
        reason = f"{form}, or null for {self.null_means}" if self.null_means else form
        problems.append(Problem(node.line, name, reason))
        return INVALID

    def json_schema(self) -> JsonSchema:
        """Returns the bounds."""
        schema: JsonSchema = {"type": "number", "minimum": self.minimum, "maximum": self.maximum}
        return schema if self.step is None else {**schema, "multipleOf": self.step}

    def _allows(self, value: float) -> bool:
        return self.minimum <= value <= self.maximum and (self.step is None or value / self.step % 1 == 0)


@dataclass(frozen=True)
class Flag:
    """True or false."""

    def read(self, node: DocumentNode, name: str, problems: list[Problem]) -> object:
        """Reads a boolean."""
        if isinstance(node.typed, bool):
            return node.typed
        problems.append(Problem(node.line, name, "must be true or false"))
        return INVALID

    def json_schema(self) -> JsonSchema:
        """Returns the type."""
        return {"type": "boolean"}


class OneOf:
    """One of a few words."""

    def __init__(self, *words: str) -> None:
        self._words = words

    def read(self, node: DocumentNode, name: str, problems: list[Problem]) -> Any:
        """Reads one of the words."""
        if isinstance(node.value, str) and node.value in self._words:
            return node.value
        problems.append(Problem(node.line, name, f"must be one of: {', '.join(self._words)}"))
        return INVALID

    def json_schema(self) -> JsonSchema:
        """Returns the allowed words."""
        return {"enum": list(self._words)}


@dataclass(frozen=True)
class Anything:
    """Any JSON value."""

    def read(self, node: DocumentNode, name: str, problems: list[Problem]) -> object:  # noqa: ARG002 - a Shape like the others
        """Reads any value."""
        return node.plain()

    def json_schema(self) -> JsonSchema:
        """Returns the schema that accepts every value."""
        return {}


@dataclass(frozen=True)
class CheckedValue:
    """A value that a function normalises, or refuses with a ValueError whose text says what is allowed.

    `schema` is a JSON Schema of all values that the function accepts.
    """

    check: Callable[[Any], Any]
    schema: JsonMapping

    def read(self, node: DocumentNode, name: str, problems: list[Problem]) -> object:
        """Reads a value that the function accepts."""
        as_text = isinstance(node.value, str) and self.schema.get("type") == "string"
        try:
            return self.check(node.value if as_text else node.plain())
        except ValueError as error:
            problems.append(Problem(node.line, name, str(error)))
            return INVALID

    def json_schema(self) -> JsonSchema:
        """Returns the given schema."""
        return dict(self.schema)
