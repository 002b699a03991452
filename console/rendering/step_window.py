"""Which steps of a long workflow a page shows at once, so that the page stays small."""

from collections.abc import Callable, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

T = TypeVar("T")

MOST_STEPS: Final = 40
"""At once."""

_LONGEST_NUMBER: Final = 4


class StepWindow(NamedTuple, Generic[T]):
    """Some of the steps; `windows` are the numbers and labels of all, where they are several."""

    steps: Sequence[T]
    windows: Sequence[tuple[int, str]]
    number: int


def step_window(
    steps: Sequence[T], asked: str, selected: str, name_of: Callable[[T], str], most: int = MOST_STEPS
) -> StepWindow[T]:
    """Returns the window that is asked for by its number from 1, else that of the selected step, else the first."""
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
