"""Looks up in a text what a model quotes from it."""

import re
from collections.abc import Callable, Collection, Sequence
from typing import Final

from backend.redaction.model import Column, Mention
from backend.redaction.rules.labels import label_entities, plain_label
from backend.redaction.rules.rule import Value

_SHORTEST_QUOTE: Final = 2

Ask = Callable[[str, Collection[str], Sequence[Column]], Sequence[Mention]]


def is_known_label(text: str) -> bool:
    """Returns whether a text is the name of a column or key that is known."""
    return bool(label_entities(plain_label(text)))


def find_mentions(
    ask: Ask, text: str, categories: Collection[str], floor: float, offset: int, columns: Sequence[Column] = ()
) -> list[Value]:
    """Asks a model, and returns every place where a quote of at least `floor` stands as whole words, or its own place.

    `offset` is added to the places of the matches.
    """
    matches = []
    for mention in ask(text, categories, columns):
        quote = mention.quote.strip()
        if mention.type not in categories or mention.score < floor or len(quote) < _SHORTEST_QUOTE:
            continue
        if is_known_label(quote):
            # In a document it stands before values or above them.
            continue
        if mention.start is not None:
            end = mention.start + len(mention.quote)
            matches.append((mention.start + offset, end + offset, mention.type, min(mention.score, 1.0)))
            continue
        places = re.finditer(rf"(?<!\w){re.escape(quote)}(?!\w)", text)
        matches += [
            (place.start() + offset, place.end() + offset, mention.type, min(mention.score, 1.0)) for place in places
        ]
    return matches
