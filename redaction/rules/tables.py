"""Reads the tables of rules: TOML files with `[pieces]` of patterns, lists of `[words]`, and `[[rules]]`.

A pattern is written in plain Unicode and matches normalised text, which has "ÿ" for each letter beyond Latin-1;
patterns of LABELS and SCRIPTS match the original text. Line breaks in a pattern are removed. `{name}` stands for a
piece, defined above in the file or in `shared.toml`. A rule takes missing keys from `[defaults]`. Each file is read
once; unknown content is refused, with the file's name, the number of the rule and the key.
"""

import functools
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from redaction.entity_types import ENTITY_TYPES
from redaction.rules.words import BEYOND_LATIN, listed_words

FOLDER: Final = Path(__file__).parent
SHARED: Final = "shared"
"""Name of the table whose pieces all others may use."""
LABELS: Final = "labels"
"""Name of the table of the names of columns and keys."""
SCRIPTS: Final = "scripts"
"""Name of the table of people's names in other scripts than Latin."""

PHONES: Final = "phones"
"""Name of the table of phone numbers, with a piece for all country codes."""

_PARTS: Final = frozenset({"pieces", "words", "defaults", "rules"})
_NEEDED: Final = frozenset({"entity", "pattern"})
_CLASSES: Final = frozenset({"before", "after"})
_PATTERNS: Final = frozenset({"pattern", "opening", "context", "tail", *_CLASSES})
_SCORES: Final = frozenset({"score", "context_score"})
_COUNTS: Final = frozenset({"longest", "longest_tail"})
_REFERENCE: Final = re.compile(r"\{([a-z_]+)\}")


class Table(NamedTuple):
    """A file of rules: expanded pieces, words, and rules as written."""

    file: str
    pieces: Mapping[str, str]
    words: Mapping[str, frozenset[str]]
    rules: Sequence[Mapping[str, Any]]


@functools.cache
def table(name: str) -> Table:
    """Returns the table named `name`."""
    return read_table((FOLDER / f"{name}.toml").read_text(encoding="utf-8"), name)


def shared(piece: str) -> str:
    """Returns a piece of the patterns that several tables or modules share."""
    return table(SHARED).pieces[piece]


def read_table(text: str, name: str) -> Table:
    """Reads a table from TOML text.

    Raises:
        ValueError: the table has an unknown part, a duplicate piece or list of words, or an unknown piece in a pattern.
    """
    file = f"{name}.toml"
    given: dict[str, Any] = tomllib.loads(text if name in {LABELS, SCRIPTS} else BEYOND_LATIN.sub("\xff", text))
    if unknown := given.keys() - _PARTS:
        raise ValueError(f"{file}: {min(unknown)} is none of {', '.join(sorted(_PARTS))}")
    pieces = {} if name == SHARED else dict(table(SHARED).pieces)
    if name == PHONES:
        pieces["country_codes"] = _country_codes()
    for key, piece in _mapping(given, "pieces", file).items():
        if key in pieces:
            raise ValueError(f"{file}: pieces: {key} is one of {SHARED}.toml too")
        pieces[key] = _with_pieces(piece, pieces, f"{file}: pieces: {key}")
    words = {
        key: frozenset(listed_words(listed, f"{file}: words: {key}"))
        for key, listed in _mapping(given, "words", file).items()
    }
    rules = given.get("rules", [])
    if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
        raise ValueError(f"{file}: rules must be tables")
    defaults = _mapping(given, "defaults", file)
    return Table(file, pieces, words, [{**defaults, **rule} for rule in rules])


def read_rules(
    given: Table, keys: frozenset[str], functions: Mapping[str, Mapping[str, Any]] | None = None
) -> Iterator[dict[str, Any]]:
    """Yields the values of each rule of a table by key, with functions in place of their names.

    Raises:
        ValueError: a rule has an unknown key, lacks a required one, or has an invalid value.
    """
    for number, rule in enumerate(given.rules, 1):
        where = f"{given.file}: rule {number}"
        if missing := _NEEDED - rule.keys():
            raise ValueError(f"{where}: {min(missing)} is missing")
        if unknown := rule.keys() - keys:
            raise ValueError(f"{where}: {min(unknown)} is no key of a rule")
        yield {
            key: _value(given, key, value, f"{where}: {key}", None if functions is None else functions.get(key))
            for key, value in rule.items()
        }


@functools.cache
def scored_patterns(name: str) -> tuple[tuple[str, re.Pattern[str], float], ...]:
    """Returns the rules of a table whose rules have only an entity type, a pattern, and a score."""
    rules = read_rules(table(name), frozenset({"entity", "pattern", "score"}))
    return tuple((rule["entity"], re.compile(rule["pattern"]), rule["score"]) for rule in rules)


def _value(given: Table, key: str, value: Any, where: str, functions: Mapping[str, Any] | None) -> Any:
    """Returns the value of a rule's field from its value in the table."""
    if key in _PATTERNS:
        return _pattern(given, key, value, where)
    if functions is not None:
        right = isinstance(value, str) and value in functions
    elif key in _SCORES:
        right = type(value) in {int, float} and 0 <= value <= 1
    elif key in _COUNTS:
        right = type(value) is int and value > 0
    else:
        right = isinstance(value, str) and value in ENTITY_TYPES if key == "entity" else isinstance(value, bool)
    if not right:
        raise ValueError(f"{where}: {value!r} is no value of it")
    return value if functions is None else functions[value]


def _pattern(given: Table, key: str, value: Any, where: str) -> str:
    pattern = _with_pieces(value, given.pieces, where)
    if key == "opening":
        # RE2 has no atomic groups; without them an opening finds equal matches, since RE2 does not backtrack.
        return pattern.replace("(?>", "(?:")
    try:
        # Costs nothing more, because `re` caches the pattern for the sweep.
        re.compile(f"[^{pattern}]" if key in _CLASSES and pattern else pattern)
    except re.error as error:
        raise ValueError(f"{where}: {error}") from error
    return pattern


def _with_pieces(text: object, pieces: Mapping[str, str], where: str) -> str:
    if not isinstance(text, str):
        raise ValueError(f"{where} must be a text")  # noqa: TRY004 - as the file's other mistakes

    def piece(found: re.Match[str]) -> str:
        if found[1] not in pieces:
            raise ValueError(f"{where}: {found[1]} is no piece")
        return pieces[found[1]]

    return _REFERENCE.sub(piece, text.replace("\n", ""))


def _mapping(given: Mapping[str, Any], part: str, file: str) -> dict[str, Any]:
    found = given.get(part, {})
    if not isinstance(found, dict):
        raise ValueError(f"{file}: {part} must be a table")  # noqa: TRY004 - as the file's other mistakes
    return found


def _country_codes() -> str:
    # Imported late, because phonenumbers is optional and labels do not need it.
    import phonenumbers

    return "|".join(map(str, sorted(phonenumbers.COUNTRY_CODE_TO_REGION_CODE, reverse=True)))
