"""Checks of names: whether words name a person, also in small letters in a chat, or a thing."""

import functools
import re
from collections.abc import Collection
from typing import Final

from redaction.rules.labels import label_entities, may_name, plain_label
from redaction.rules.tables import shared, table
from redaction.rules.words import normalised_words, words

# Words of signatures and fields that name no person, and words that begin an ordinary line.
_NO_NAMES: Final = normalised_words("no_names")
_UPPER: Final = shared("upper")
_LOWER: Final = shared("lower")
# Names before an address in angle brackets, read backwards.
_WORD_BACKWARDS: Final = f"(?:[a-z{_LOWER}A-Z{_UPPER}'-]{{0,40}}[A-Z{_UPPER}\u00ff]|\\.[A-Z])"
_BACKWARDS: Final = re.compile(
    f'{_WORD_BACKWARDS}(?: ,?(?:{_WORD_BACKWARDS}|[a-z]{{1,5}}(?= ))){{0,4}}(?=["\\s:;,<]|$)'
)

_CHAT_WORDS: Final = table("chats").words
_NOT_CHAT_NAMES: Final = _CHAT_WORDS["nobody"] | _CHAT_WORDS["no_answers"]
_PARTICLES: Final = _CHAT_WORDS["particles"]
_ROLE: Final = re.compile(shared("role_fields"), re.IGNORECASE)

_SURE: Final = 0.8
_THING_LABELS: Final = words("thing_labels")
_GOODS_LABELS: Final = words("goods_labels")
_NAME_LABELS: Final = words("name_labels")
_QUANTITY_LABELS: Final = words("quantity_labels")
_PEOPLE_LABELS: Final = words("people_labels")
_BEFORE_NAME: Final = words("before_things")
_BEFORE_NAME_ENDINGS: Final = tuple(words("before_thing_endings"))
_BEHIND_NAME: Final = words("behind_things")
_ELISION: Final = re.compile(r"^(?:l|d|dell|all|nell|un|qu)['\u2019]")
# Ranks that German writes as one word.
_RANK: Final = re.compile(
    r"\w{2,}(?:arzt|ärztin|leiter|leiterin|führer|führerin|meister|meisterin|techniker|technikerin|ingenieur|"
    r"ingenieurin|assistent|assistentin|kauffrau|kaufmann|referent|referentin)"
)


def may_be_person(text: str) -> bool:
    """Returns whether a text in the form of a name has no word for a group, a thing or a time."""
    return _NO_NAMES.isdisjoint(text.lower().replace("-", " ").replace(",", " ").split())


def name_start(text: str, at: int) -> int:
    """Returns the start of the name that ends at a position; the position itself if there is none."""
    line = max(text.rfind("\n", 0, at) + 1, at - 120)
    found = _BACKWARDS.match(text[line:at][::-1])
    if found is None or not may_be_person(text[at - found.end() : at].strip('"')):
        return at
    return at - found.end()


def is_name(text: str) -> bool:
    """Returns whether words in small letters may be a name: none is a common word of chats."""
    words = {*text.lower().split()} - _PARTICLES
    return bool(words) and words.isdisjoint(_NOT_CHAT_NAMES) and may_be_person(text) and _ROLE.fullmatch(text) is None


def may_speak(word: str) -> bool:
    """Returns whether a word in small letters before a colon may be the name of a speaker."""
    return is_name(word) and not label_entities(word)


def is_account(text: str) -> bool:
    """Returns whether the name of an account may be a person's."""
    return may_be_person(re.sub("[._-]", " ", text)) and is_name(text)


@functools.lru_cache(maxsize=4096)
def names_things(label: str) -> bool:
    """Returns whether the name of a column, key or field shows that its values are neither people nor addresses."""
    parts = _words(label)
    # The name of an application.
    named = len(parts) > 1 and parts[-1] in _NAME_LABELS and parts[-2] in _THING_LABELS
    return bool(parts) and (named or parts[-1] in _THING_LABELS) and not _is_of_people(label, parts)


def names_goods(label: str, adjacent_labels: Collection[str]) -> bool:
    """Returns whether a label is of goods: a label beside it is of quantities or prices."""
    return may_head_goods(label) and any(map(is_quantity, adjacent_labels))


@functools.lru_cache(maxsize=4096)
def is_quantity(label: str) -> bool:
    """Returns whether a label names quantities, prices, or numbers of goods."""
    return not _QUANTITY_LABELS.isdisjoint([*_words(label)[-2:], label.lower()])


def may_head_goods(label: str) -> bool:
    """Returns whether a label may be of goods."""
    parts = _words(label)
    return bool(parts) and parts[-1] in _GOODS_LABELS and not _is_of_people(label, parts)


def comes_before_name(word: str) -> bool:
    """Returns whether a word comes before names of firms, products, rooms and the like."""
    lower = _ELISION.sub("", word.lower())
    return lower in _BEFORE_NAME or lower.endswith(_BEFORE_NAME_ENDINGS)


def comes_behind_name(word: str) -> bool:
    """Returns whether a capitalised word ends names of firms or products."""
    return word.lower().rstrip(".") in _BEHIND_NAME


def has_thing_behind_hyphen(word: str) -> bool:
    """Returns whether a word has the noun of a thing behind a hyphen: Parkinson-Syndrom."""
    return word.rpartition("-")[0] != "" and comes_behind_name(word.rpartition("-")[2])


def is_rank(word: str) -> bool:
    """Returns whether a word is the name of a rank or an occupation."""
    return _RANK.fullmatch(word.lower()) is not None


def _words(label: str) -> list[str]:
    return plain_label(label).split() or label.lower().split()


def _is_of_people(label: str, parts: list[str]) -> bool:
    if not _PEOPLE_LABELS.isdisjoint(parts) or any(map(may_name, parts[:-1])):
        return True
    return any(
        entity in {"PERSON", "LOCATION"} and score >= _SURE for entity, score in label_entities(plain_label(label))
    )
