"""Finds too deep nesting and duplicate members in JSON, by byte offset.

Both searches pass over the text once, with one match of a regular expression per run of brackets or per name. The
expressions skip other text without backtracking.
"""

import re
from typing import Final

import orjson

_STRING: Final = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
# Text without brackets is skipped without coming back to Python.
_BRACKETS: Final = re.compile(
    rb'(?:[^"\[\]{}]++|' + _STRING + rb')*+(?:(?P<open>[\[{]++)|(?P<close>[\]}]++)|"|\Z)', re.DOTALL
)
_MEMBERS: Final = re.compile(
    rb'(?:[^"{}]++|\{[ \t\r\n]*+\}|'
    + _STRING
    + rb"(?![ \t\r\n]*+:))*+(?:(?P<name>"
    + _STRING
    + rb")|(?P<open>\{)|(?P<close>\})|\Z)",
    re.DOTALL,
)


def too_deep_at(body: bytes, deepest: int) -> int | None:
    """Returns the offset of the first bracket that opens one level more than `deepest`; None without one.

    Text that is not valid JSON is understood up to its first error.
    """
    if body.count(b"[") + body.count(b"{") <= deepest:
        return None
    depth = 0
    for match in _BRACKETS.finditer(body):
        opened = match["open"]
        if opened:
            depth += len(opened)
            if depth > deepest:
                return match.end() - (depth - deepest)
        elif match["close"]:
            depth -= len(match["close"])
        else:
            break  # the end of the text, or a string without an end
    return None


def named_twice_at(body: bytes) -> int | None:
    """Returns the offset of the first name that its object has already; None without one. The body is valid JSON."""
    objects: list[set[bytes]] = []
    names: set[bytes] = set()
    for match in _MEMBERS.finditer(body):
        name = match["name"]
        if name:
            if b"\\" in name:
                # A copy: the bytes that orjson.dumps returns keep four kilobytes each.
                name = b'"%b"' % orjson.loads(name).encode()
            if name in names:
                return match.start("name")
            names.add(name)
        elif match["open"]:
            objects.append(names)
            names = set()
        elif match["close"]:
            names = objects.pop()
    return None
