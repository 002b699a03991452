"""The tree of plain values with their lines that a YAML file is read to, and problems of it."""

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

_LONGEST_KEY_SHOWN: Final = 80


class Problem(NamedTuple):
    """A problem in a file: its line from 1, its field as `steps[0].needs`, and what is allowed."""

    line: int
    field: str
    reason: str


@dataclass(frozen=True, slots=True)
class Node:
    """A value with the line at which it begins.

    `value` is None, a bool, int, float or str, a list of nodes, or a dict of nodes by name. `size` is its number of
    nodes, with aliases counted at each use. `literal` marks a `|` block, whose text begins on the next line.
    """

    value: Any
    line: int
    size: int = 1
    literal: bool = False

    def plain(self) -> Any:
        """Returns the value without lines, as JSON has it."""
        if isinstance(self.value, dict):
            return {name: node.plain() for name, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value

    def line_of(self, *path: str | int) -> int:
        """Returns the line of the value at a path, or of the deepest part of the path that exists."""
        node = self
        for part in path:
            try:
                node = node.value[part]
            except (KeyError, IndexError, TypeError):
                break
        return node.line


def member(field: str, name: str) -> str:
    """Returns the path of the member `name` of `field`, with a long name cut and an empty one shown as quotes."""
    shown = (name or '""') if len(name) <= _LONGEST_KEY_SHOWN else f"{name[:_LONGEST_KEY_SHOWN]}…"
    return f"{field}.{shown}" if field else shown
