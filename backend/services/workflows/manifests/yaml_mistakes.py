"""Mistakes of YAML: the place to correct, and those of a document that are independent of each other.

A parser ends at the first mistake. The lines below are then read again in parts, each of which is YAML by itself: the
lines beside the wrong one, then those beside each of the lines that it is part of. Lines within the wrong one are left
out.
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
"""Parts of a document that are looked through: each is read to its end."""
_LINES: Final = re.compile("[^\n\r\x85\u2028\u2029]*(?:\r\n|[\n\r\x85\u2028\u2029])|[^\n\r\x85\u2028\u2029]+")
"""Lines as the parser counts them."""
_MARKER: Final = re.compile(r"(---|\.\.\.)(?:\s|$)")
_NOTICED_LATER: Final = frozenset({"while scanning a simple key", "while scanning a quoted scalar"})
"""Contexts whose mistake, a missing colon or quote, is where the context begins."""
_OF_NAMES: Final = f"{string.ascii_letters}{string.digits}_.-"
_BLANKS: Final = " \t"
_DASH: Final = re.compile(r"-[ \t]+")
_BLOCK_TEXT: Final = re.compile(r"(?:^|[:\-] +)[|>][-+0-9]{0,2}\s*$")


@dataclass(frozen=True, slots=True)
class Mistake:
    """A mistake: its line from 0, what the parser says with the column, and from which indentation reading goes on."""

    line: int
    what: str
    indent: int = 0
    in_flow: bool = False
    tab: bool = False


class LookedThrough(NamedTuple):
    """Findings in a part of a document: line, from 0, and reason of what it may not hold; what ended its parsing."""

    refused: Sequence[tuple[int, str]]
    first: Mistake | None


LookThrough = Callable[[Sequence[str]], LookedThrough]


def lines_of(text: str) -> list[str]:
    """Returns the lines of a text, each with its end."""
    return _LINES.findall(text)


def documents_of(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yields the first line and the end of each document, directives with the document that they belong to."""
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


def mistakes_of(lines: Sequence[str], start: int, end: int, look_through: LookThrough) -> Iterator[Mistake]:
    """Yields the mistakes of the document in `lines[start:end]` from the top, those that follow from another left out.

    What is refused above the first mistake is left out as well.
    """
    parts = [(start, end)]
    told = 0
    wrong: int | None = None
    looked = 0
    while parts and told < _MOST_MISTAKES and looked < _MOST_PARTS:
        looked += 1
        start, end = parts.pop()
        refused, mistake = look_through(lines[start:end])
        if wrong is not None:
            yield from (Mistake(start + line, reason) for line, reason in refused)
            told += len(refused)
        if mistake is None:
            continue
        line = min(max(start + mistake.line, start), end - 1)
        if wrong is None or any(not _is_blank(each) for each in lines[wrong + 1 : line]):
            yield replace(mistake, line=line)
            told += 1
        wrong = line
        below = list(islice(_parts_below(lines, line, end, mistake), _MOST_PARTS))
        parts += reversed(below)


def mistake_of(error: yaml.YAMLError, lines: Sequence[str], last: Any, flow_line: int | None) -> Mistake:
    """Returns the mistake behind a parser's error: the parser often notices lines later that something is missing.

    `last` is the event before it, and `flow_line` where the outermost flow collection begins that is open.
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
        # Text of a block that is not indented: what follows is text as well.
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
        # Behind the last entry, which a name on the next line belongs to.
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
    """Returns where the lines end that are beside or within a line: items of a list, or fields with their lists."""
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
    """Returns where the first field of a line begins, behind the dashes of a list."""
    indent = _indent(line)
    while dash := _DASH.match(line, indent):
        indent = dash.end()
    return indent
