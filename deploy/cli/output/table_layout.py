"""Widths of a table's columns: which are shown where there is little room, and which are shortened.

Ids are never shortened. Free text is, down to a few characters; then whole columns are left out, the least important
first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len, set_cell_size

GAP: Final = 2
_LEAST_TEXT: Final = 14
_ELLIPSIS: Final = "…"


@dataclass(frozen=True, slots=True)
class ColumnRoom:
    """What one column needs: `width` of its longest cell, `least` that it can be shortened to, and when it is left out.

    Columns are left out by their `rank`, the greatest first; one of rank 0 is always shown.
    """

    width: int
    least: int
    rank: int


def room_for(cells: Sequence[str], *, shortens: bool, rank: int) -> ColumnRoom:
    """Returns what a column of these cells, its title among them, needs."""
    width = max(map(cell_len, cells))
    return ColumnRoom(width, min(width, max(_LEAST_TEXT, cell_len(cells[0]))) if shortens else width, rank)


def fitted_widths(columns: Sequence[ColumnRoom], available: int | None) -> list[int | None]:
    """Returns the width of each column, None for one that is left out; without a width everything is shown whole."""
    if available is None:
        return [column.width for column in columns]
    shown = list(range(len(columns)))

    def needed(widths: Sequence[int]) -> int:
        return sum(widths) + GAP * (len(shown) - 1)

    while needed([columns[index].least for index in shown]) > available:
        rank, last = max((columns[index].rank, index) for index in shown)
        if rank == 0:
            break
        shown.remove(last)
    widths = {index: columns[index].least for index in shown}
    spare = max(0, available - needed(list(widths.values())))
    # The narrowest wishes first, so that one long text takes only what the others leave.
    for index in sorted(shown, key=lambda index: columns[index].width - widths[index]):
        more = min(spare, columns[index].width - widths[index])
        widths[index] += more
        spare -= more
    return [widths.get(index) for index in range(len(columns))]


def fitted(text: str, width: int, *, right: bool = False) -> str:
    """Returns a cell of exactly this width, shortened with an ellipsis or filled with blanks."""
    length = cell_len(text)
    if length > width:
        return set_cell_size(text, width - 1) + _ELLIPSIS
    fill = " " * (width - length)
    return fill + text if right else text + fill
