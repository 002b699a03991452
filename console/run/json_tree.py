"""JSON text as a tree of bounded size, for a page."""

import json
from dataclasses import dataclass, field
from typing import Any, Final

MOST_NODES: Final = 800

_MOST_DEPTH: Final = 12
_MOST_CHARS: Final = 300
_OPEN_DEPTH: Final = 2


class _Number(str):
    """A number as it is written."""

    __slots__ = ()


@dataclass(slots=True)
class Node:
    """A value with its name in the object or list that holds it.

    `text` is a scalar as JSON, or how many members the value has; `left_out` counts members that are not shown.
    """

    name: str
    text: str
    children: list["Node"] = field(default_factory=list)
    open: bool = False
    left_out: int = 0


def tree_of(text: str) -> Node | None:
    """Returns JSON text as a tree; None where it is no JSON, or a plain value."""
    try:
        value = json.loads(text, parse_int=_Number, parse_float=_Number, parse_constant=_Number)
    except (ValueError, RecursionError):
        return None
    return _TreeBuilder().node("", value, 0) if isinstance(value, dict | list) else None


class _TreeBuilder:
    """Builds nodes, at most as many as one page may have."""

    def __init__(self) -> None:
        self._left = MOST_NODES

    def node(self, name: str, value: Any, depth: int) -> Node:
        self._left -= 1
        name = name[:_MOST_CHARS]
        if not isinstance(value, dict | list):
            return Node(name, _scalar(value))
        is_object = isinstance(value, dict)
        what = ("member" if is_object else "item") + ("" if len(value) == 1 else "s")
        node = Node(name, f"{len(value):,} {what}", open=depth < _OPEN_DEPTH)
        members = (
            value.items() if isinstance(value, dict) else ((str(number), each) for number, each in enumerate(value))
        )
        if depth < _MOST_DEPTH:
            for key, member in members:
                if self._left <= 0:
                    break
                node.children.append(self.node(key, member, depth + 1))
        node.left_out = len(value) - len(node.children)
        return node


def _scalar(value: Any) -> str:
    text = str(value) if isinstance(value, _Number) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MOST_CHARS else text[: _MOST_CHARS - 1] + "…"
