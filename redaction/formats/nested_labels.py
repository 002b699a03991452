"""Labels of values in nested keys: `{"name": {"first": …}}` is a first name."""

import functools
import re
from typing import TYPE_CHECKING, Final

from redaction.rules.labels import label_entities, plain_label

if TYPE_CHECKING:
    from redaction.search.linear_search import Search

# Keys that distinguish several values, whose meaning is in the key above.
_GENERIC: Final = frozenset(
    (  # noqa: SIM905 - a table is read more easily as words
        "first last middle given family full display formatted raw text value values number no nr id code line line1 "
        "line2 lines home work mobile main primary secondary other default current date key content"
    ).split()
)
# Keys of a whole value, not of a part.
_WHOLE: Final = frozenset({"text", "value", "values", "content", "display", "formatted", "raw"})
# Keys whose values are labels, and keys of the labelled values beside them.
_STATING: Final = frozenset(
    {"name", "key", "field", "field name", "label", "property", "attribute", "param", "system", "type", "column"}
)
_STATED: Final = frozenset({"value", "values", "text", "content", "val", "answer", "string value", "value string"})
# Texts that may be labels rather than values.
_WORDS: Final = re.compile(r"[^\W\d_][^\W\d]*(?:[ .:/-][^\W\d]+){0,4}")
_LONGEST_STATED: Final = 60
_SURE: Final = 0.8


@functools.lru_cache(maxsize=4096)
def nested_label(parent: str, key: str) -> str:
    """Returns the label of a key below a parent key: the key alone, or with the parent or its last word."""
    if not parent:
        return key
    best, score = key, label_score(key)
    for both in (f"{key} {parent}", f"{parent} {key}", f"{key} {parent.rpartition(' ')[2]}"):
        if (found := label_score(both)) > score:
            best, score = both, found
    if score:
        return best
    if plain_label(key) in _WHOLE and label_score(parent):
        return parent
    return f"{key} {parent}" if plain_label(key) in _GENERIC else best


@functools.lru_cache(maxsize=4096)
def may_state_label(key: str) -> bool:
    """Returns whether a key's value may label an adjacent value: `{"key": "surname", "value": …}`."""
    return plain_label(key) in _STATING


@functools.lru_cache(maxsize=4096)
def may_be_labelled(key: str) -> bool:
    """Returns whether a key's value may be labelled by the value of an adjacent key."""
    return plain_label(key) in _STATED


def may_be_label(text: str) -> bool:
    """Returns whether a text may be a label of values."""
    return len(text) <= _LONGEST_STATED and _WORDS.fullmatch(text) is not None


@functools.lru_cache(maxsize=4096)
def is_known_label(text: str) -> bool:
    """Returns whether a text is a label that a rule knows."""
    if not may_be_label(text):
        return False
    return label_score(text) > 0 or _context_words()(f" {plain_label(text)} ".encode(), 0) >= 0


def states_label(key: str, text: str) -> bool:
    """Returns whether a value labels an adjacent value: a known label under a key of labels.

    A type such as user or person tells whom a text is about, not that the text is a name.
    """
    return (
        may_state_label(key)
        and is_known_label(text)
        and (plain_label(key) != "type" or not 0 < label_score(text) < _SURE)
    )


@functools.cache
def _context_words() -> "Search":
    """Returns a search for the context words of rules."""
    # Imported late: compiling the rules is slow, and previews read tables without them.
    from redaction.rules.loader import all_rules
    from redaction.search.contexts import search_words

    return search_words("|".join(dict.fromkeys(rule.context for rule in all_rules() if rule.context)))


@functools.lru_cache(maxsize=4096)
def stated_label(parent: str, stated: str, label: str) -> str:
    """Returns the label of a value below a parent: by the label `stated` beside it, else `label`."""
    best = nested_label(parent, stated)
    if (score := label_score(best)) and score >= label_score(label):
        return best
    return label if label_score(label) else f"{stated} {label}"


@functools.lru_cache(maxsize=4096)
def label_score(label: str) -> float:
    """Returns the highest score that a label gives to its values; 0 for none."""
    return max((score for _, score in label_entities(plain_label(label))), default=0.0)
