"""Layout of a workflow's graph of steps: coordinates of boxes and lines, which a template draws as SVG."""

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import Final, Generic, NamedTuple, TypeVar

from console.rendering.text import html_bytes

BOX_WIDTH: Final = 176
BOX_HEIGHT: Final = 50
COLUMN_GAP: Final = 44
ROW_GAP: Final = 18
MARGIN: Final = 6
LANE_HEIGHT: Final = 4
"""Height of a lane, in which a line crosses a column between its boxes."""
GUTTER: Final = 20
"""Width beside the columns of a drawing in bands, in which lines lead from one band to the next."""
BAND_GAP: Final = 14
LANE_GAP: Final = 5
"""Distance of two lines between two bands."""

MAX_TITLE_CELLS: Final = 20
"""Character cells that fit into a box; a wide character takes two."""

MAX_NOTE_CELLS: Final = 23

MOST_LINE_CHARS: Final = 25_000
"""Most characters of all lines' SVG in a page."""

_SWEEPS: Final = 3
_LINE_CHARS: Final = 90
"""Characters of a line's SVG without its path and the names of its steps."""

# A step and a column: in the step's own column its box, in later columns the lane of its lines.
_Slot = tuple[str, int]

T = TypeVar("T")

MOST_STEPS: Final = 40
"""Most steps of one drawing."""

_LONGEST_NUMBER: Final = 4


@dataclass(frozen=True, slots=True)
class Node:
    """A step to draw; `note` is the line below its title, `css_class` sets its colours."""

    step: str
    title: str
    needs: Sequence[str]
    note: str = ""
    css_class: str = ""


@dataclass(frozen=True, slots=True)
class Box:
    """A step with its position; `label` and `note` are its title and note, shortened to fit."""

    node: Node
    label: str
    note: str
    x: int
    y: int
    width: int = BOX_WIDTH
    height: int = BOX_HEIGHT


@dataclass(frozen=True, slots=True)
class Line:
    """A dependency, from the needed step to the one that needs it; `path` is the `d` of an SVG path."""

    source: str
    target: str
    path: str


@dataclass(frozen=True, slots=True)
class Drawing:
    """Boxes and lines, and the size of the area in pixels.

    `columns` is the number of boxes beside each other. `lines_left_out` is the number of lines left out to bound the
    page, first lines that others imply.
    """

    width: int
    height: int
    boxes: Sequence[Box]
    lines: Sequence[Line]
    columns: int
    lines_left_out: int = 0


def draw(nodes: Sequence[Node], band: int = 0) -> Drawing:
    """Returns the drawing of steps from left to right; the result depends only on the steps and their order.

    A need of an unknown step is ignored. With `band`, at most so many columns are beside each other: the next ones
    follow below, as lines of text do.

    Raises:
        graphlib.CycleError: the needs form a circle.
    """
    known = {node.step for node in nodes}
    needs = {node.step: [need for need in dict.fromkeys(node.needs) if need in known] for node in nodes}
    column_of = layers(needs)
    columns = _ordered(_slots(needs, column_of), needs, column_of)
    layout = _Layout(columns, column_of, band)
    boxes = [
        Box(
            node,
            shortened(node.title, MAX_TITLE_CELLS),
            shortened(node.note, MAX_NOTE_CELLS),
            *layout.corner(node.step),
        )
        for node in nodes
    ]
    lines = [Line(need, step, layout.path(need, step)) for step, needed in needs.items() for need in needed]
    shown = _within_bound(lines, needs)
    return Drawing(
        width=layout.width,
        height=MARGIN + max(layout.places.values(), default=0) + BOX_HEIGHT // 2,
        boxes=boxes,
        lines=shown,
        columns=layout.columns,
        lines_left_out=len(lines) - len(shown),
    )


def layers(needs: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Returns the column of each step: the first right of every step that it needs."""
    sorter = TopologicalSorter(needs)
    sorter.prepare()
    found: dict[str, int] = {}
    column = 0
    while sorter.is_active():
        ready = sorter.get_ready()
        found.update(dict.fromkeys(ready, column))
        sorter.done(*ready)
        column += 1
    return found


def shortened(text: str, max_cells: int) -> str:
    """Returns a text cut to `max_cells` character cells, with an ellipsis where it was cut."""
    widths = [2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text]
    if sum(widths) <= max_cells:
        return text
    room = max_cells - 1
    length = 0
    while widths[length] <= room:
        room -= widths[length]
        length += 1
    return text[:length].rstrip() + "…"


class StepWindow(NamedTuple, Generic[T]):
    """A window of the steps; `windows` has the number and label of each window, empty where all steps fit."""

    steps: Sequence[T]
    windows: Sequence[tuple[int, str]]
    number: int


def step_window(
    steps: Sequence[T], asked: str, selected: str, name_of: Callable[[T], str], most: int = MOST_STEPS
) -> StepWindow[T]:
    """Returns the window by its number in `asked`, from 1, else the selected step's window, else the first."""
    count = len(steps)
    windows = [
        (number, f"{start + 1} to {min(start + most, count)}") for number, start in enumerate(range(0, count, most), 1)
    ]
    number = int(asked) if asked.isascii() and asked.isdecimal() and len(asked) <= _LONGEST_NUMBER else 0
    if not 1 <= number <= len(windows):
        place = next((index for index, step in enumerate(steps) if name_of(step) == selected), 0)
        number = place // most + 1
    shown = steps[(number - 1) * most : number * most]
    return StepWindow(shown, windows if len(windows) > 1 else (), number)


def _slots(needs: Mapping[str, Sequence[str]], column_of: Mapping[str, int]) -> list[list[_Slot]]:
    """Returns the slots of each column, in the order of the steps."""
    columns: list[list[_Slot]] = [[] for _ in range(max(column_of.values(), default=-1) + 1)]
    for step, first in column_of.items():
        last = max((column_of[user] for user in needs if step in needs[user]), default=first + 1)
        for column in range(first, last):
            columns[column].append((step, column))
    return columns


def _ordered(
    columns: list[list[_Slot]], needs: Mapping[str, Sequence[str]], column_of: Mapping[str, int]
) -> list[list[_Slot]]:
    """Orders each column by the positions of its neighbours, in several sweeps, so that few lines cross."""
    before: dict[_Slot, list[_Slot]] = {}
    after: dict[_Slot, list[_Slot]] = {slot: [] for column in columns for slot in column}
    for slot in after:
        step, column = slot
        sources = needs[step] if column == column_of[step] else (step,)
        before[slot] = [(source, column - 1) for source in sources]
        for neighbour in before[slot]:
            after[neighbour].append(slot)
    for _ in range(_SWEEPS):
        for column in range(1, len(columns)):
            columns[column] = _sorted_by_neighbours(columns[column], before, columns[column - 1])
        for column in reversed(range(len(columns) - 1)):
            columns[column] = _sorted_by_neighbours(columns[column], after, columns[column + 1])
    return columns


def _sorted_by_neighbours(
    slots: list[_Slot], neighbours: Mapping[_Slot, Sequence[_Slot]], beside: Sequence[_Slot]
) -> list[_Slot]:
    # Positions count from the middle, because centred columns may differ in length.
    position = {slot: index - (len(beside) - 1) / 2 for index, slot in enumerate(beside)}
    own = {slot: index - (len(slots) - 1) / 2 for index, slot in enumerate(slots)}

    def middle(slot: _Slot) -> float:
        found = [position[neighbour] for neighbour in neighbours[slot]]
        return sum(found) / len(found) if found else own[slot]

    return sorted(slots, key=middle)


class _Layout:
    """Places of the slots of ordered columns, in one band or in bands of `band` columns below each other.

    Attributes:
        places: The vertical centre of each slot; the columns of a band are centred.
        columns: Columns beside each other.
        width: Width of the drawing.
    """

    def __init__(self, columns: Sequence[Sequence[_Slot]], column_of: Mapping[str, int], band: int) -> None:
        self._column_of = column_of
        self._band = band if band and len(columns) > band else max(len(columns), 1)
        self._gutter = GUTTER if len(columns) > self._band else 0
        self._lanes: dict[_Slot, tuple[int, int]] = {}
        self.places: dict[_Slot, int] = {}
        top = MARGIN
        for first in range(0, len(columns), self._band):
            if first:
                top = self._lead(columns[first - 1], top)
            top = self._place(columns[first : first + self._band], top)
        self.columns = min(len(columns), self._band)
        right = self._left(self.columns - 1) + BOX_WIDTH if columns else MARGIN
        self.width = right + self._gutter + MARGIN

    def corner(self, step: str) -> tuple[int, int]:
        """Returns the left upper corner of a step's box."""
        column = self._column_of[step]
        return self._left(column), self.places[step, column] - BOX_HEIGHT // 2

    def path(self, source: str, target: str) -> str:
        """Returns the path from the right side of a box, along its lanes, to the left side of another."""
        first, last = self._column_of[source], self._column_of[target]
        y = self.places[source, first]
        parts = [f"M{self._left(first) + BOX_WIDTH} {y}"]
        for column in range(first + 1, last + 1):
            left = self._left(column)
            following = self.places[target if column == last else source, column]
            if column % self._band:
                bend = left - COLUMN_GAP // 2
                parts.append(f"C{bend} {y} {bend} {following} {left} {following}")
            else:
                lane, aside = self._lanes[source, column - 1]
                right = self._left(column - 1) + BOX_WIDTH + aside
                parts.append(f"H{right}V{lane}H{left - aside}V{following}H{left}")
            if column < last:
                parts.append(f"H{left + BOX_WIDTH}")
            y = following
        return "".join(parts)

    def _left(self, column: int) -> int:
        return MARGIN + self._gutter + column % self._band * (BOX_WIDTH + COLUMN_GAP)

    def _lead(self, column: Sequence[_Slot], top: int) -> int:
        """Gives each line that leaves a band a lane below it; returns the top of the next band."""
        leading = [slot for slot in column if self._leads(slot)]
        for number, slot in enumerate(leading):
            self._lanes[slot] = top + BAND_GAP + number * LANE_GAP, GUTTER // 2 + number % 4 * 2
        return top + 2 * BAND_GAP + max(len(leading) - 1, 0) * LANE_GAP

    def _leads(self, slot: _Slot) -> bool:
        # Every line of a step crosses to the column after it.
        return slot[1] < max(self._column_of.values())

    def _place(self, columns: Sequence[Sequence[_Slot]], top: int) -> int:
        """Places the columns of a band from `top`; returns its bottom."""
        heights = {
            (step, column): BOX_HEIGHT if self._column_of[step] == column else LANE_HEIGHT
            for slots in columns
            for step, column in slots
        }
        totals = [sum(heights[slot] + ROW_GAP for slot in slots) - ROW_GAP for slots in columns]
        for slots, total in zip(columns, totals, strict=True):
            y = top + (max(totals) - total) // 2
            for slot in slots:
                self.places[slot] = y + heights[slot] // 2
                y += heights[slot] + ROW_GAP
        return top + max(totals)


def _within_bound(lines: Sequence[Line], needs: Mapping[str, Sequence[str]]) -> Sequence[Line]:
    """Returns all lines if they fit, else the first that fit of the lines that no others imply."""
    if sum(map(_chars, lines)) <= MOST_LINE_CHARS:
        return lines
    above: dict[str, set[str]] = {}
    for step in TopologicalSorter(needs).static_order():
        above[step] = {one for need in needs[step] for one in (need, *above[need])}
    room = MOST_LINE_CHARS
    shown: list[Line] = []
    for line in lines:
        implied = any(line.source in above[other] for other in needs[line.target] if other != line.source)
        if implied:
            continue
        room -= _chars(line)
        if room < 0:
            break
        shown.append(line)
    return shown


def _chars(line: Line) -> int:
    return _LINE_CHARS + len(line.path) + html_bytes(line.source) + html_bytes(line.target)
