"""Writes JSON, for simple values without the slow import of json, and measures nesting."""

from __future__ import annotations

TYPE_CHECKING = False

_PIECE_BYTES = 64 * 1024
_OPENS, _CLOSES = b"[{", b"]}"
# The running sum of these signed bytes is the depth.
_AS_STEPS = bytes.maketrans(_OPENS + _CLOSES, b"\x01\x01\xff\xff")
_OTHERS = bytes(set(range(256)) - set(_OPENS + _CLOSES))


if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_LEVELS = 20
_MOST_NAME_CHARACTERS = 100


def encode(value: object) -> bytes:
    """Returns the value as UTF-8 JSON; raises ValueError, TypeError or RecursionError if JSON cannot express it.

    A mapping with two keys that JSON writes alike, as 1 and "1", is a ValueError: readers keep only one of them.
    """
    plain = _plain(value, _LEVELS)
    if plain is not None:
        return plain.encode()
    import json

    text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    _refuse_equal_keys(value)
    return text.encode()


def path_beyond_json(value: object) -> str | None:
    """Returns the path of the first value inside `value` that JSON cannot express, as `$.items[3].at`, and why.

    None where each value by itself is JSON.
    """
    waiting: list[Iterator[tuple[str, Any]]] = [iter((("$", value),))]
    looked_at: set[int] = set()
    while waiting:
        path, one = next(waiting[-1], ("", None))
        if not path:
            waiting.pop()
        elif isinstance(one, dict) and id(one) not in looked_at:
            for name in one:
                if name is not None and not isinstance(name, (str, int, float)):
                    return f"{path}: a name is of type {type(name).__name__}, not text"
            waiting.append(_members_of(path, one))
            looked_at.add(id(one))
        elif isinstance(one, (list, tuple)) and id(one) not in looked_at:
            waiting.append(_items_of(path, one))
            looked_at.add(id(one))
        elif isinstance(one, float):
            if one - one != 0:
                return f"{path}: {one!r} is no number of JSON; return None or a text"
        elif one is not None and not isinstance(one, (str, int, dict, list, tuple)):
            how = "its isoformat()" if hasattr(one, "isoformat") else "text, numbers, lists and dicts"
            return f"{path}: it is of type {type(one).__name__}; return {how}"
    return None


def _items_of(path: str, items: list[Any] | tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
    for number, item in enumerate(items):
        yield f"{path}[{number}]", item


def _members_of(path: str, mapping: dict[Any, Any]) -> Iterator[tuple[str, Any]]:
    for name, item in mapping.items():
        short = name[:_MOST_NAME_CHARACTERS] if isinstance(name, str) else ""
        yield f"{path}.{short}" if short.isidentifier() else f"{path}[{short!r}]", item


def _refuse_equal_keys(value: object) -> None:
    """Looks at every mapping in a value that JSON can express, and so does not contain itself."""
    containers: list[Any] = [[value]]
    while containers:
        one = containers.pop()
        if isinstance(one, dict) and any(type(key) is not str for key in one):
            _refuse_equal_keys_of(one)
        inner = one.values() if isinstance(one, dict) else one
        containers += [each for each in inner if isinstance(each, (dict, list, tuple))]


def _refuse_equal_keys_of(mapping: dict[Any, Any]) -> None:
    import json

    members = json.loads(json.dumps(dict.fromkeys(mapping)), object_pairs_hook=list)
    written: dict[str, Any] = {}
    for key, (name, _) in zip(mapping, members, strict=True):
        if name in written:
            raise ValueError(f"the keys {written[name]!r} and {key!r} of a mapping are both written as {name!r}")
        written[name] = key


def _plain(value: Any, levels: int) -> str | None:
    """Returns the JSON of a simple value, as json would write it; None for any other value."""
    kind = type(value)
    if kind is str:
        return f'"{value}"' if value.isprintable() and '"' not in value and "\\" not in value else None
    if kind is int or kind is float:
        number = repr(value)
        # nan and inf are not JSON.
        return None if "n" in number else number
    if kind is list and levels:
        items = [_plain(item, levels - 1) for item in value]
        return None if None in items else f"[{','.join(items)}]"  # type: ignore[arg-type]  # none is None
    if kind is dict and levels:
        return _plain_object(value, levels - 1)
    return {None: "null", True: "true", False: "false"}[value] if value is None or kind is bool else None


def _plain_object(value: dict[Any, Any], levels: int) -> str | None:
    members = []
    for name, item in value.items():
        first, second = _plain(name, 0), _plain(item, levels)
        if type(name) is not str or first is None or second is None:
            return None
        members.append(f"{first}:{second}")
    return f"{{{','.join(members)}}}"


def deeper_than(text: bytes, levels: int) -> bool:
    """Returns whether arrays and objects are nested more than `levels` deep in JSON text, which may be malformed."""
    if text.count(b"[") + text.count(b"{") <= levels:
        return False
    import re
    from itertools import accumulate

    # Without escaped characters every quote begins or ends a string; one that is not closed reaches to the end.
    unescaped = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    brackets = re.sub(rb'"[^"]*+"?+', b"", unescaped).translate(_AS_STEPS, _OTHERS)
    depth = 0
    # In pieces, because one call over all of it would block other threads.
    for start in range(0, len(brackets), _PIECE_BYTES):
        depths = list(accumulate(memoryview(brackets)[start : start + _PIECE_BYTES].cast("b"), initial=depth))
        if max(depths) > levels:
            return True
        depth = depths[-1]
    return False
