"""What a search finds among things with a name and an id."""

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def best_matches(things: Iterable[T], text: str, most: int, words: Callable[[T], tuple[str, str]]) -> list[T]:
    """Returns things whose name or id has a text, in any case: first those whose name begins with it, then by name.

    `words` are the name and the id of a thing.
    """
    asked = text.casefold()
    found = []
    for thing in things:
        name, identifier = (word.casefold() for word in words(thing))
        if asked in name or asked in identifier:
            found.append((not name.startswith(asked), name, identifier, thing))
    return [thing for *_, thing in sorted(found, key=lambda each: each[:3])[:most]]
