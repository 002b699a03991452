"""Labels of values in nested keys: `{"name": {"first": …}}` is a first name."""

import functools
from typing import Final

from backend.redaction.rules.labels import label_entities, plain_label

# Keys that say which of several values it is, and leave to the key above what it is.
_GENERIC: Final = frozenset(
    (  # noqa: SIM905 - a table is read more easily as words
        "first last middle given family full display formatted raw text value values number no nr id code line line1 "
        "line2 lines home work mobile main primary secondary other default current date key content"
    ).split()
)


@functools.lru_cache(maxsize=4096)
def nested_label(parent: str, key: str) -> str:
    """Returns the label of the values of a key below another: alone, or with that one, or its last word, beside it."""
    if not parent:
        return key
    best, score = key, label_score(key)
    for both in (f"{key} {parent}", f"{parent} {key}", f"{key} {parent.rpartition(' ')[2]}"):
        if (found := label_score(both)) > score:
            best, score = both, found
    return f"{key} {parent}" if not score and plain_label(key) in _GENERIC else best


def label_score(label: str) -> float:
    """Returns the highest score that a label gives to the values under it; 0 for none."""
    return max((score for _, score in label_entities(plain_label(label))), default=0.0)
