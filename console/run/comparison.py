"""Differences of two JSON values, by the path of what differs."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

_MOST_LEAVES: Final = 20_000
_MOST_SHOWN: Final = 100
_MOST_CHARS: Final = 200
_MOST_DEPTH: Final = 100


class Difference(NamedTuple):
    """A part that differs: its path, and its value on each side as JSON, empty where that side has none."""

    path: str
    left: str
    right: str


class Differences(NamedTuple):
    """The first parts that differ, how many do, and how many parts are equal; `cut` where a value is too large."""

    shown: Sequence[Difference]
    total: int
    equal: int
    cut: bool


def differences(left: str, right: str) -> Differences:
    """Returns how two values differ, each given as JSON text; an empty text is no value."""
    ours, ours_cut = _leaves(left)
    theirs, theirs_cut = _leaves(right)
    found = [
        Difference(path or "the value", ours.get(path, ""), theirs.get(path, ""))
        for path in {**ours, **theirs}
        if ours.get(path) != theirs.get(path)
    ]
    shown = [Difference(_short(each.path), _short(each.left), _short(each.right)) for each in found[:_MOST_SHOWN]]
    equal = len({**ours, **theirs}) - len(found)
    return Differences(shown, len(found), equal, ours_cut or theirs_cut)


def _leaves(text: str) -> tuple[dict[str, str], bool]:
    """Returns the scalars of a value by their paths, and whether there are more than are read."""
    if not text:
        return {}, False
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {"": text}, False
    found: dict[str, str] = {}
    for path, leaf in _walk("", value, 0):
        if len(found) >= _MOST_LEAVES:
            return found, True
        found[path] = leaf
    return found, False


def _walk(path: str, value: Any, depth: int) -> Iterator[tuple[str, str]]:
    members: Iterator[tuple[str, Any]]
    if depth < _MOST_DEPTH and value and isinstance(value, dict):
        members = ((f"{path}.{name}" if path else name, member) for name, member in value.items())
    elif depth < _MOST_DEPTH and value and isinstance(value, list):
        members = ((f"{path}[{number}]", member) for number, member in enumerate(value))
    else:
        yield path, json.dumps(value, ensure_ascii=False)
        return
    for name, member in members:
        yield from _walk(name, member, depth + 1)


def _short(text: str) -> str:
    return text if len(text) <= _MOST_CHARS else text[: _MOST_CHARS - 1] + "…"
