"""Text in pieces, and a sweep that collects the cells it is given."""

from collections.abc import Callable


def collecting(seen: list[str]) -> Callable[[list[str], list[str]], dict[int, str]]:
    def note(cells: list[str], _: list[str]) -> dict[int, str]:
        seen.extend(cells)
        return {}

    return note


def pieces_of(text: str, size: int) -> list[str]:
    return [text[place : place + size] for place in range(0, len(text), size)]
