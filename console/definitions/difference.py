"""A unified difference as lines of a page."""

from typing import Final, NamedTuple

from console.rendering.excerpts import short

_MOST_LINES: Final = 200
_LINE_BYTES: Final = 120
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
    """Returns a unified difference line by line, without its two lines of names: the first lines, each cut."""
    every = unified.splitlines()[2:]
    shown = [DifferenceLine(_TAGS.get(line[:1], "same"), short(line, _LINE_BYTES)) for line in every[:_MOST_LINES]]
    added, removed = (sum(line.startswith(sign) for line in every) for sign in "+-")
    return Difference(shown, added, removed, len(shown) < len(every))
