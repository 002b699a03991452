"""Entity types by the name of a column or key, for values that no pattern describes: names, places, groups."""

import functools
import re
from collections.abc import Collection, Mapping
from typing import Final

from redaction.rules.tables import LABELS, scored_patterns, shared, table

PART_SCORE: Final = 0.85
"""Score of a cell under a label of names, beside a column of family names or given names."""
NAMED_SCORE: Final = 0.8
"""Score of a cell in the form of a name under a label that may name persons."""
_FULL_NAME: Final = re.compile(
    "|".join(map(shared, ("full_names", "family_first", "capital_first", "full_capitals"))), re.ASCII
)
_CAMEL_CASE_BOUNDARY: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORD_SEPARATOR: Final = re.compile(r"[^0-9A-Za-z\u0080-\U0010ffff]+")
_TABLE: Final = table(LABELS)
_OTHER_PART: Final = re.compile(_TABLE.pieces["other_part"])
_FAMILY: Final = re.compile(_TABLE.pieces["family"])
_GIVEN: Final = re.compile(_TABLE.pieces["given"])
_NAME_WORD: Final = re.compile(_TABLE.pieces["name_word"])
_SURE: Final = 0.85
PRIVATE_MEMBER: Final = "private member of a key"
"""Plain label of the secret numbers of a cryptographic key in object form."""


@functools.cache
def _any_label() -> re.Pattern[str]:
    return re.compile("|".join(pattern.pattern for _, pattern, _ in scored_patterns(LABELS)))


@functools.lru_cache(maxsize=4096)
def plain_label(name: str) -> str:
    """Returns the name of a column or key as words: `customerSSN` and `customer_ssn` are "customer ssn"."""
    return _WORD_SEPARATOR.sub(" ", _CAMEL_CASE_BOUNDARY.sub(" ", name[:200])).strip().lower()


@functools.lru_cache(maxsize=4096)
def label_entities(label: str) -> tuple[tuple[str, float], ...]:
    """Returns the entity types, with scores, that a plain label gives to every whole value under it."""
    if _any_label().fullmatch(label) is None:
        return ()
    return tuple((entity, score) for entity, pattern, score in scored_patterns(LABELS) if pattern.fullmatch(label))


def other_parts(counts: Mapping[str, int]) -> Collection[str]:
    """Returns the labels of the other part of a name beside a label of one part, as Nombre beside Apellidos.

    `counts` has the number of cells by label. Since things may have such labels too, nearly every cell of one part must
    have a cell of the other beside it, and no other label may show whose name it is.
    """
    plain = {label: plain_label(label) for label in counts}
    named = {label for label in counts if ("PERSON", _SURE) in label_entities(plain[label])}
    family = {label for label in named if _FAMILY.fullmatch(plain[label]) is not None}
    given = {label for label in named if _GIVEN.fullmatch(plain[label]) is not None}
    others = [label for label in named - family - given if _NAME_WORD.search(plain[label]) is not None]
    if bool(family) == bool(given) or others:
        return ()
    most = max(counts[label] for label in family | given)
    return [
        label
        for label, words in plain.items()
        if most <= 2 * counts[label] <= 2 * most and _OTHER_PART.fullmatch(words) is not None
    ]


def may_name(label: str) -> bool:
    """Returns whether a plain label may name persons, but also other things."""
    return any(entity == "PERSON" for entity, _ in label_entities(label))


def has_name_form(cell: str) -> bool:
    """Returns whether a normalised cell has the form of a person's name, of two words or more."""
    return _FULL_NAME.fullmatch(cell) is not None
