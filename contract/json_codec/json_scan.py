"""Finds what this API refuses in valid JSON, by byte offset: too deep nesting, and duplicate members.

Both walk the text once, one match of a regular expression per run of brackets or per name; everything else is skipped
inside of the expression, which never goes back and matches the end too, so that no text is walked twice.
"""

import re
from typing import Final

import orjson

_STRING: Final = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
# What neither opens nor closes anything is skipped without coming back to Python.
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
    """Returns the offset of the first bracket that opens one level more than `deepest`, if there is one.

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
    """Returns the offset of the first name that its object has already, if there is one; the body is valid JSON."""
    objects: list[set[bytes]] = []
    names: set[bytes] = set()
    for match in _MEMBERS.finditer(body):
        name = match["name"]
        if name:
            if b"\\" in name:
                # What orjson.dumps returns keeps four kilobytes for each name.
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
