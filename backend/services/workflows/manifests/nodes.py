"""The tree of plain values with their lines that a YAML file is read to, and problems of it."""

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
# Reasons that list what is allowed; behind any other colon a reason quotes what it refuses.
_LISTS: Final = ("must be one of: ", "must be a list of: ")

Scalar = int | float | bool
"""A value that is neither text nor null."""


class Problem(NamedTuple):
    """A problem in a file: its line from 1, its field as `steps[0].needs`, and what is allowed."""

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
        """Returns the value without lines, as JSON has it."""
        if self.scalar is not None:
            return self.scalar
        if isinstance(self.value, dict):
            return {name: node.plain() for name, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value

    def at(self, field: str) -> "DocumentNode | None":
        """Returns the node of a field, as a problem names it; None where the document has none."""
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
    """Returns a problem of a document whose reason shows the value that it refuses, unless it may be a secret."""
    reason, node = problem.reason, document.at(problem.field)
    told = ": " in reason and not reason.startswith(_LISTS)
    if node is None or told or not reason.startswith("must "):
        return problem
    value = node.plain()
    if isinstance(value, list | dict) and not reason.startswith("must be "):
        # How many entries it has is wrong, or what is in it.
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
            # A schema, or code, of which the beginning tells nothing.
            return problem
        shown = f"{shown[:_LONGEST_VALUE_SHOWN]}…"
    return problem._replace(reason=f"{reason}; it is {shown}")


def member(field: str, name: str) -> str:
    """Returns the path of the member `name` of `field`, with a long name cut and an empty one shown as quotes."""
    shown = (name or '""') if len(name) <= _LONGEST_KEY_SHOWN else f"{name[:_LONGEST_KEY_SHOWN]}…"
    return f"{field}.{shown}" if field else shown
