"""Reads the words that rules and the local model use: a file for each language under `words/`.

Each list of a file is a text of words of one of KINDS; `frequent` words indicate the language of a document, and so
the language's `countries` by ISO 3166 codes. `countries.toml` has the names of countries and currencies. Files are
read once; unknown content is refused.
"""

import functools
import re
import tomllib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

FOLDER: Final = Path(__file__).parent.parent / "words"
KINDS: Final = frozenset(
    {
        # Names of columns, keys and fields: of things, which are neither people nor addresses; of goods, if a quantity
        # or a price is beside them; of names; of quantities and prices; of people.
        *("thing_labels", "goods_labels", "name_labels", "quantity_labels", "people_labels"),
        # Words before and behind names of firms, brands, rooms and departments, and endings of words before such names
        # in languages with compounds: Besprechungsraum, Bouwbedrijf.
        *("before_things", "before_thing_endings", "behind_things"),
        # Words before a number: for numbers other than phones, for such numbers even behind a word for phone, and
        # fillers between such a word and its number.
        *("other_numbers", "order_numbers", "number_fillers"),
        # Capitalised nouns of people, which occur beside names; and words that no name has.
        *("people_nouns", "no_names"),
    }
)
"""Kinds of lists of words."""

_COUNTRIES_FILE: Final = "countries.toml"
_WORD: Final = re.compile(r"[^\s\"|]+")
_COUNTRY: Final = re.compile("[A-Z]{2}")
BEYOND_LATIN: Final = re.compile("[^\x00-\xff]")
"""A character that becomes "\xff" in normalised text."""


class Language(NamedTuple):
    """Words of one language by kind, its frequent words, and the countries that speak it."""

    countries: tuple[str, ...]
    frequent: frozenset[str]
    words: Mapping[str, frozenset[str]]


def words(kind: str) -> frozenset[str]:
    """Returns the words of a kind in all languages."""
    if kind not in KINDS:
        raise KeyError(kind)
    return frozenset().union(*(language.words.get(kind, ()) for language in languages()))


def normalised_words(kind: str) -> frozenset[str]:
    """Returns the words of a kind in the form of normalised text."""
    return frozenset(BEYOND_LATIN.sub("\xff", word) for word in words(kind))


@functools.cache
def languages() -> tuple[Language, ...]:
    """Returns the words of every language, in the order of the files' names."""
    return tuple(
        read_language(path.read_text(encoding="utf-8"), path.name)
        for path in sorted(FOLDER.glob("*.toml"))
        if path.name != _COUNTRIES_FILE
    )


@functools.cache
def countries() -> Mapping[str, str]:
    """Returns the code of each country by its names and its currency."""
    table = tomllib.loads((FOLDER / _COUNTRIES_FILE).read_text(encoding="utf-8"))
    return {word: code for code, names in table.items() for word in listed_words(names, f"{_COUNTRIES_FILE}: {code}")}


def read_language(text: str, name: str) -> Language:
    """Reads the file of a language; `name` is for messages.

    Raises:
        ValueError: the file has content other than words of known kinds.
    """
    table: dict[str, Any] = tomllib.loads(text)
    codes = table.pop("countries", [])
    if not isinstance(codes, list) or not all(isinstance(one, str) and _COUNTRY.fullmatch(one) for one in codes):
        raise ValueError(f"{name}: countries must be a list of ISO 3166 codes")
    frequent = frozenset(listed_words(table.pop("frequent", ""), f"{name}: frequent"))
    if bool(codes) != bool(frequent):
        raise ValueError(f"{name}: countries and frequent need one another")
    if unknown := table.keys() - KINDS:
        raise ValueError(f"{name}: {min(unknown)} is no kind of words")
    return Language(
        tuple(codes),
        frequent,
        {kind: frozenset(listed_words(given, f"{name}: {kind}")) for kind, given in table.items()},
    )


def listed_words(given: Any, where: str) -> list[str]:
    """Reads a list of words; `where` is for messages.

    Raises:
        ValueError: the value is no text of different words in small letters.
    """
    if not isinstance(given, str):
        raise ValueError(f"{where} must be a text of words")  # noqa: TRY004 - as the file's other mistakes
    listed = given.split()
    for word, times in Counter(listed).items():
        if _WORD.fullmatch(word) is None or word != word.lower():
            raise ValueError(f"{where}: {word} is no word in small letters")
        if times > 1:
            raise ValueError(f"{where}: {word} stands there twice")
    return listed
