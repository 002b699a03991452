"""Parsed YAML as a tree of plain values with their lines (`DocumentNode`), and problems in it (`Problem`)."""

import re
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from backend.common.json_text import canonical

_LONGEST_KEY_SHOWN: Final = 80
_LONGEST_VALUE_SHOWN: Final = 60
_PART: Final = re.compile(r"([^.\[\]]+)|\[([0-9]+)\]")
# A secret may have been written where its name belongs, and an address may hold a password.
_SECRET_FIELD: Final = re.compile("secret|key|token|password|auth", re.IGNORECASE)
_ADDRESS_WITH_USER: Final = re.compile("//[^/?#]*@")
# Reasons that list allowed values; behind any other colon, a reason quotes the refused value.
_LISTS: Final = ("must be one of: ", "must be a list of: ")

Scalar = int | float | bool
"""A value that is neither text nor null."""


class Problem(NamedTuple):
    """A problem in a file: line from 1, field as `steps[0].needs`, and reason, which says what is allowed."""

    line: int
    field: str
    reason: str


@dataclass(frozen=True, slots=True)
class DocumentNode:
    """A value with the line at which it begins.

    `value` is None, a bool, int, float or str, a list of nodes, or a dict of nodes by name. `size` is its number of
    nodes, with aliases counted at each use. `literal` marks a `|` block, whose text begins on the next line. `column`
    counts from 1. `written` is the source text of a number, a boolean, or a text with variables; else empty. `scalar`
    is what the text stands for in a field that takes no text, where the whole text is the value of a variable.
    """

    value: Any
    line: int
    size: int = 1
    literal: bool = False
    column: int = 1
    written: str = ""
    scalar: Scalar | None = None

    @property
    def typed(self) -> Any:
        """The value for a field that takes no text."""
        return self.value if self.scalar is None else self.scalar

    def plain(self) -> Any:
        """Returns the value as plain JSON, without lines."""
        if self.scalar is not None:
            return self.scalar
        if isinstance(self.value, dict):
            return {name: node.plain() for name, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value

    def at(self, field: str) -> "DocumentNode | None":
        """Returns the node at a field path as in `Problem.field`, or None."""
        node = self
        for name, place in _PART.findall(field):
            try:
                node = node.value[name or int(place)]
            except (KeyError, IndexError, TypeError):
                return None
        return node

    def line_of(self, *path: str | int) -> int:
        """Returns the line of the value at a path, or of the deepest part of the path that exists."""
        node = self
        for part in path:
            try:
                node = node.value[part]
            except (KeyError, IndexError, TypeError):
                break
        return node.line


def with_value(problem: Problem, document: DocumentNode) -> Problem:
    """Returns a problem with the refused value added to its reason, unless the value may be a secret."""
    reason, node = problem.reason, document.at(problem.field)
    quoted = ": " in reason and not reason.startswith(_LISTS)
    if node is None or quoted or not reason.startswith("must "):
        return problem
    value = node.plain()
    if isinstance(value, list | dict) and not reason.startswith("must be "):
        # The reason is about the number or the content of entries.
        return problem
    if _SECRET_FIELD.search(problem.field) and not isinstance(value, int | float):
        return problem
    shown = repr(value) if isinstance(value, str) else canonical(value)
    if _ADDRESS_WITH_USER.search(shown) or (isinstance(value, list | dict) and _SECRET_FIELD.search(shown)):
        return problem
    if isinstance(value, str) and value and re.search(rf"(?<!\w){re.escape(value)}(?!\w)", reason):
        return problem
    if len(shown) > _LONGEST_VALUE_SHOWN:
        if not isinstance(value, str) or "\n" in value:
            # The beginning of a schema or code would not help.
            return problem
        shown = f"{shown[:_LONGEST_VALUE_SHOWN]}…"
    return problem._replace(reason=f"{reason}; it is {shown}")


def member(field: str, name: str) -> str:
    """Returns the path of the member `name` of `field`; shortens a long name, and shows an empty one as quotes."""
    shown = (name or '""') if len(name) <= _LONGEST_KEY_SHOWN else f"{name[:_LONGEST_KEY_SHOWN]}…"
    return f"{field}.{shown}" if field else shown
