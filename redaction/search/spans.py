"""Cuts texts into windows, joins overlapping matches, and replaces values by `[TYPE]`."""

import bisect
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from redaction.entity_types import ENTITY_TYPES
from redaction.rules.rule import REACH, Match, Value, line_above

WINDOW: Final = 8_192
_PLACEHOLDERS: Final = {entity: f"[{entity}]" for entity in ENTITY_TYPES}


def windows(text: str) -> Iterator[tuple[int, int, int, int]]:
    """Yields windows of a text as (start, end, low, high): values begin within start to end; low to high is read.

    A window that begins at a line break reads the lines just above too; a window inside a longer line reads REACH
    characters of both neighbours.
    """
    start = 0
    low = 0
    while start < len(text):
        end = start + WINDOW
        if end >= len(text):
            yield start, len(text), low, len(text)
            return
        if (line := text.rfind("\n", start, end)) >= start:
            end = line + 1
            yield start, end, low, end
            low = line_above(text, end)
        else:
            yield start, end, low, min(_line_end(text, end), end + REACH)
            low = max(low, end - REACH)
        start = end


def _line_end(text: str, start: int) -> int:
    end = text.find("\n", start, start + REACH)
    return start + REACH if end < 0 else end


def resolved(values: Iterable[Value]) -> list[Match]:
    """Returns values in order, with each group of overlapping values joined to one."""
    return [Match(*value) for value in joined(sorted(values))]


def joined(values: Iterable[Value]) -> list[Value]:
    """Returns ordered values with each group of overlapping values joined to one.

    A group takes the entity type of the longest value in it; among equals the higher score decides, then the name.
    """
    groups: list[Value] = []
    low = high = longest = -1
    best = (-1, -1, "", 0.0)
    for value in values:
        start, end, entity, score = value
        if start >= high:
            if low >= 0:
                groups.append((low, high, best[2], best[3]))
            low, high, longest, best = start, end, end - start, value
            continue
        if end > high:  # noqa: PLR1730 - a call would take longer
            high = end
        size = end - start
        if size > longest or (size == longest and (score, entity) > (best[3], best[2])):
            longest, best = size, value
    if low >= 0:
        groups.append((low, high, best[2], best[3]))
    return groups


def typed_by_rules(guesses: Iterable[Value], found: Sequence[Value]) -> list[Value]:
    """Returns a model's values, each with the type of the longest rule value that it overlaps, if any.

    `found` are the rules' values, in order; rules know the types of exact forms better than a model.
    """
    typed: list[Value] = []
    longest = max((end - start for start, end, _, _ in found), default=0)
    for guess in guesses:
        start, end, _, _ = guess
        low = bisect.bisect_left(found, (start - longest,))
        high = bisect.bisect_left(found, (end,), low)
        over = [value for value in found[low:high] if value[1] > start]
        if over:
            _, _, entity, score = max(over, key=lambda value: (value[1] - value[0], value[3], value[2]))
            guess = (start, end, entity, score)  # noqa: PLW2901 - with another type
        typed.append(guess)
    return typed


def replaced(text: str, values: Sequence[Value]) -> str:
    """Returns the text with every value replaced by `[TYPE]`; the values are in order and disjoint."""
    if len(values) == 1:
        [(start, end, entity, _)] = values
        return f"{text[:start]}{_PLACEHOLDERS.get(entity) or f'[{entity}]'}{text[end:]}"
    parts: list[str] = []
    place = 0
    for start, end, entity, _ in values:
        parts += text[place:start], _PLACEHOLDERS.get(entity) or f"[{entity}]"
        place = end
    parts.append(text[place:])
    return "".join(parts)
