"""A unified difference as lines of a page."""

from typing import Final, NamedTuple

from console.rendering.excerpts import beginning, short

_MOST_LINES: Final = 600
_MOST_CHARS: Final = 24_000
_LINE_CHARS: Final = 400
_TAGS: Final = {"+": "ins", "-": "del", "@": "h"}


class DifferenceLine(NamedTuple):
    """A line, and how it is marked: `ins`, `del`, `h` for the place of what follows, or `same`."""

    tag: str
    text: str


class Difference(NamedTuple):
    """The lines that are shown of a difference, how many were added and removed, and whether lines are left out."""

    lines: list[DifferenceLine]
    added: int
    removed: int
    cut: bool


def difference_lines(unified: str) -> Difference:
    """Returns a unified difference line by line, without its two lines of names and within what a page may have."""
    every = unified.splitlines()[2:]
    first = "\n".join(short(line, _LINE_CHARS) for line in every[:_MOST_LINES])
    text, cut = beginning(first, _MOST_CHARS, _MOST_CHARS)
    shown = [DifferenceLine(_TAGS.get(line[:1], "same"), line) for line in text.splitlines()]
    added, removed = (sum(line.startswith(sign) for line in every) for sign in "+-")
    return Difference(shown, added, removed, cut or len(every) > _MOST_LINES)
