"""Words that rules and the local model go by: a file for each language under `words/`, in plain Unicode.

A list of a file is a text of words, and is of one of KINDS; `frequent` words indicate the language of a document, of
its `countries` by ISO 3166 codes. `countries.toml` has the names of countries and of their currencies. Everything is
read once; a file with anything else is refused.
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
        # Names of columns, keys and fields: of things, which are no people and no addresses; of goods, where a quantity
        # or a price stands beside them; of names; of quantities and prices; of people, whatever else they name.
        *("thing_labels", "goods_labels", "name_labels", "quantity_labels", "people_labels"),
        # Words before and behind the name of a firm, a brand, a room, a department, and ends of words before one, in
        # languages that write them together: Besprechungsraum, Bouwbedrijf.
        *("before_things", "before_thing_endings", "behind_things"),
        # Words before a number: that name another than that of a phone, that do so although the name of a phone stands
        # before them, and that may stand between such a word and its number.
        *("other_numbers", "order_numbers", "number_fillers"),
        # Nouns of people in capitals, which stand beside names; and words that no name has.
        *("people_nouns", "no_names"),
    }
)
"""The kinds of lists of words."""

_COUNTRIES_FILE: Final = "countries.toml"
_WORD: Final = re.compile(r"[^\s\"|]+")
_COUNTRY: Final = re.compile("[A-Z]{2}")
BEYOND_LATIN: Final = re.compile("[^\x00-\xff]")
"""A letter that normalised text has "\xff" for."""


class Language(NamedTuple):
    """The words of one language by their kind, those that are frequent in it, and the countries that speak it."""

    countries: tuple[str, ...]
    frequent: frozenset[str]
    words: Mapping[str, frozenset[str]]


def words(kind: str) -> frozenset[str]:
    """Returns the words of a kind in all languages."""
    if kind not in KINDS:
        raise KeyError(kind)
    return frozenset().union(*(language.words.get(kind, ()) for language in languages()))


def normalised_words(kind: str) -> frozenset[str]:
    """Returns the words of a kind as they stand in normalised text, which has a letter for each one beyond Latin-1."""
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
        ValueError: it holds something else than words of known kinds.
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
        ValueError: it is no text of different words in small letters.
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
