"""Finds the independent syntax mistakes of a YAML document, each with the line to correct.

A parser ends at the first mistake. The lines below it are then parsed again in parts that are YAML by themselves:
siblings of the wrong line, then siblings of each of its ancestors. Children of the wrong line are left out.
"""

import re
import string
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final, NamedTuple

import yaml

_MOST_MISTAKES: Final = 10
_MOST_PARTS: Final = 20
"""Most parts of a document that are parsed again."""
_LINES: Final = re.compile("[^\n\r\x85\u2028\u2029]*(?:\r\n|[\n\r\x85\u2028\u2029])|[^\n\r\x85\u2028\u2029]+")
"""A line with its end, as the parser counts lines."""
_MARKER: Final = re.compile(r"(---|\.\.\.)(?:\s|$)")
_NOTICED_LATER: Final = frozenset({"while scanning a simple key", "while scanning a quoted scalar"})
"""Parser contexts whose mistake, a missing colon or quote, is at the beginning of the context."""
_OF_NAMES: Final = f"{string.ascii_letters}{string.digits}_.-"
_BLANKS: Final = " \t"
_DASH: Final = re.compile(r"-[ \t]+")
_BLOCK_TEXT: Final = re.compile(r"(?:^|[:\-] +)[|>][-+0-9]{0,2}\s*$")


@dataclass(frozen=True, slots=True)
class Mistake:
    """A mistake: line from 0, the parser's message with the column, and the indentation at which parsing resumes."""

    line: int
    what: str
    indent: int = 0
    in_flow: bool = False
    tab: bool = False


class ParsedPart(NamedTuple):
    """Result of parsing a part of a document: refused content as (line from 0, reason), and the first mistake."""

    refused: Sequence[tuple[int, str]]
    first: Mistake | None


ParsePart = Callable[[Sequence[str]], ParsedPart]


def lines_of(text: str) -> list[str]:
    """Returns the lines of a text, each with its line end."""
    return _LINES.findall(text)


def documents_of(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yields the line range of each document, with its directives."""
    start = 0
    for number, line in enumerate(lines):
        marker = _MARKER.match(line)
        if marker is None:
            continue
        end = number + 1 if marker[1] == "..." else number
        if any(not _is_blank(each) and not each.startswith("%") for each in lines[start:number]):
            yield start, end
            start = end
    if start < len(lines):
        yield start, len(lines)


def mistakes_of(lines: Sequence[str], start: int, end: int, parse_part: ParsePart) -> Iterator[Mistake]:
    """Yields the independent mistakes of the document in `lines[start:end]`, from the top.

    Refused content above the first mistake is left out.
    """
    parts = [(start, end)]
    reported = 0
    wrong: int | None = None
    parsed = 0
    while parts and reported < _MOST_MISTAKES and parsed < _MOST_PARTS:
        parsed += 1
        start, end = parts.pop()
        refused, mistake = parse_part(lines[start:end])
        if wrong is not None:
            yield from (Mistake(start + line, reason) for line, reason in refused)
            reported += len(refused)
        if mistake is None:
            continue
        line = min(max(start + mistake.line, start), end - 1)
        if wrong is None or any(not _is_blank(each) for each in lines[wrong + 1 : line]):
            yield replace(mistake, line=line)
            reported += 1
        wrong = line
        below = list(islice(_parts_below(lines, line, end, mistake), _MOST_PARTS))
        parts += reversed(below)


def mistake_of(error: yaml.YAMLError, lines: Sequence[str], last: Any, flow_line: int | None) -> Mistake:
    """Returns the mistake behind a parser's error, which the parser often reports some lines too late.

    `last` is the last event before the error; `flow_line` is the first line of the outermost open flow collection.
    """
    if not isinstance(error, yaml.MarkedYAMLError):
        place = getattr(error, "position", 0) or 0
        line = len(lines_of("".join(lines)[: place + 1])) - 1
        return Mistake(line, f"must be YAML: {getattr(error, 'reason', 'not readable')}", _inner_indent(lines[line]))
    line, column, what = _place(error, lines, last)
    line = min(line, len(lines) - 1)
    indent = _inner_indent(lines[line])
    above = next((each for each in reversed(lines[:line]) if not _is_blank(each)), "")
    if flow_line is not None:
        indent = _inner_indent(lines[flow_line])
    elif _BLOCK_TEXT.search(above) and _indent(lines[line]) <= _inner_indent(above):
        # Block text without indentation: the following lines are text as well.
        indent = _inner_indent(above) - 1
    tab = "\t" in lines[line][: _indent(lines[line])]
    return Mistake(line, f"must be YAML: {what}, at column {column + 1}", indent, flow_line is not None, tab)


def _place(error: yaml.MarkedYAMLError, lines: Sequence[str], last: Any) -> tuple[int, int, str]:
    what = ", ".join(part for part in (error.context, error.problem) if part)
    context = error.context or ""
    mark: Any = error.problem_mark or error.context_mark
    if context in _NOTICED_LATER:
        mark = error.context_mark
    scalar: Any = last if isinstance(last, yaml.ScalarEvent) else None
    if scalar is not None and scalar.start_mark.line < scalar.end_mark.line == mark.line:
        begun = scalar.start_mark
        indent = _inner_indent(lines[begun.line])
        if scalar.style in {"'", '"'}:
            inner = lines[begun.line + 1 : mark.line + 1]
            if any(_indent(each) <= indent and not _is_blank(each) for each in inner):
                return begun.line, begun.column, "while scanning a quoted scalar, did not find its end in this line"
        elif not scalar.style and not context and begun.column == indent:
            return begun.line, begun.column, "while scanning a simple key, could not find expected ':'"
    if context.startswith("while parsing a flow"):
        # Behind the last entry, because the name on the next line belongs to it.
        above = [*lines[: mark.line], "".join(lines[mark.line : mark.line + 1])[: mark.column].rstrip(_OF_NAMES)]
        line = next(number for number in reversed(range(len(above))) if above[number].strip())
        return line, mark.column if line == mark.line else len(above[line].rstrip()), what
    return (0, 0, what) if mark is None else (mark.line, mark.column, what)


def _parts_below(lines: Sequence[str], wrong: int, end: int, mistake: Mistake) -> Iterator[tuple[int, int]]:
    start = wrong + 1
    while start < end and mistake.tab and (_is_blank(lines[start]) or "\t" in lines[start][: _indent(lines[start])]):
        start += 1
    while start < end and (_is_blank(lines[start]) or _indent(lines[start]) > mistake.indent):
        start += 1
    if mistake.in_flow:
        while start < end and (_is_blank(lines[start]) or lines[start].lstrip()[0] in "]}"):
            start += 1
    while start < end:
        stop = _part_end(lines, start, end)
        yield start, stop
        start = stop


def _part_end(lines: Sequence[str], start: int, end: int) -> int:
    """Returns the end of the siblings of a line with their children: items of a list, or fields."""
    indent, item = _indent(lines[start]), _is_item(lines[start])
    for number in range(start + 1, end):
        line = lines[number]
        if not _is_blank(line) and (
            _indent(line) < indent or (_indent(line) == indent and item and not _is_item(line))
        ):
            return number
    return end


def _is_blank(line: str) -> bool:
    return line.strip()[:1] in {"", "#"}


def _is_item(line: str) -> bool:
    return _DASH.match(line.strip() + " ") is not None


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(_BLANKS))


def _inner_indent(line: str) -> int:
    """Returns the column of the first field of a line, behind the dashes of a list."""
    indent = _indent(line)
    while dash := _DASH.match(line, indent):
        indent = dash.end()
    return indent
