"""The text of a manifest with numbered lines, and the problems of the lines."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from markupsafe import Markup

from console.rendering.excerpts import short

FILE: Final = "manifest"
"""The name under which the text is sent; problems are named `manifest:12: steps[0].agent`."""

_PLACE: Final = re.compile(rf"{FILE}:([0-9]{{1,9}}): (.*)", re.DOTALL)
_SPARE_LINES: Final = 10
_FEWEST_LINES: Final = 20
_MOST_NUMBERED: Final = 1_000
"""Lines whose numbers a page has; its script adds the others."""
_EXCERPT_CHARS: Final = 160
_FIELD_CHARS: Final = 200
_REASON_CHARS: Final = 400
_MOST_PROBLEMS: Final = 30


class LineProblem(NamedTuple):
    """What is wrong: its line, or None where it is of no line, the field, why, and the beginning of the line."""

    line: int | None
    field: str
    reason: str
    excerpt: str


class ShownProblems(NamedTuple):
    """The first problems, as many as a page shows, and how many there are."""

    first: Sequence[LineProblem]
    total: int

    @property
    def left_out(self) -> int:
        """How many are not shown."""
        return self.total - len(self.first)


class SourceText(NamedTuple):
    """A text for a field with numbered lines; `rows` is how many it shows, some more than it has.

    `gutter` has the numbers of the first thousand rows.
    """

    text: str
    rows: int
    gutter: Markup


def line_problems(details: Any, text: str) -> list[LineProblem]:
    """Returns the problems that a refusal names in its details, by line, those without a line first."""
    lines = text.split("\n")
    found = [_problem(each, lines) for each in details] if isinstance(details, list) else []
    return sorted(found, key=lambda each: each.line or 0)


def problems_shown(found: Sequence[LineProblem]) -> ShownProblems:
    """Returns what a page shows of problems: the first, their words cut."""
    first = [
        each._replace(
            field=short(each.field, _FIELD_CHARS, size=_FIELD_CHARS),
            reason=short(each.reason, _REASON_CHARS, size=_REASON_CHARS),
        )
        for each in found[:_MOST_PROBLEMS]
    ]
    return ShownProblems(first, len(found))


def source_text(text: str, problems: Iterable[LineProblem] = ()) -> SourceText:
    """Returns a text with the numbers of its lines, those with a problem marked."""
    rows = max(text.count("\n") + 1 + _SPARE_LINES, _FEWEST_LINES)
    wrong = {each.line for each in problems}
    gutter = Markup("\n").join(
        Markup('<b id="line-{0}">{0}</b>').format(number) if number in wrong else Markup(str(number))  # noqa: S704 - a number
        for number in range(1, min(rows, _MOST_NUMBERED) + 1)
    )
    return SourceText(text, rows, gutter)


def _problem(detail: Mapping[str, str], lines: Sequence[str]) -> LineProblem:
    place = _PLACE.fullmatch(detail["name"])
    if place is None:
        return LineProblem(None, detail["name"], detail["reason"], "")
    line = min(int(place[1]), len(lines))
    return LineProblem(line, place[2], detail["reason"], lines[line - 1].strip()[:_EXCERPT_CHARS])
