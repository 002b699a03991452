"""Words of a text with the local model's likelihoods, adjusted by column and by spelling.

The model reads every text in small letters. The weights are fitted on texts that the benchmark makes
(benchmarks/redaction), so that a word of likelihood 0.4 is part of a value more often than not, whatever its form.
"""

import bisect
import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from redaction.model import Column
from redaction.rules.persons import may_be_person
from redaction.rules.tables import shared
from redaction.rules.words import words

# Least cells, and most words of a cell, for an adjustment by column.
_LEAST_CELLS: Final = 4
_MOST_WORDS: Final = 5
# Number of cells from which a column has full weight.
_ENOUGH_CELLS: Final = 8
_WEIGHT: Final = 1.5
# Average likelihood of a column that is neutral for its cells.
_EVEN: Final = 0.2
_LEAST: Final = 0.001

# Added to the logarithm of the odds.
_CAPITAL: Final = {"PERSON": 1.6, "LOCATION": 2.2}
_FIRST_OF_SENTENCE: Final = {"PERSON": 0.45, "LOCATION": 1.0}
_BESIDE_NAME: Final = 1.0
_SMALL: Final = {"PERSON": -3.35, "LOCATION": -1.8}
_SMALL_IN_SMALL_LINE: Final = {"PERSON": -0.5, "LOCATION": -1.2}
_NUMBER: Final = {"LOCATION": -2.6, "PHONE_NUMBER": 0.45}
_NUMBER_IN_ADDRESS: Final = 1.6
_ID: Final = -0.8
_PLAIN_ID: Final = -2.0
_NO_NAME: Final = -3.0
_IMPOSSIBLE: Final = -9.0
_NEVER: Final = -math.inf
# Least digits of a personal number.
_LEAST_DIGITS: Final = 5
# Likelihood from which a word makes adjacent numbers part of an address, and adjacent words part of a name.
_LIKELY: Final = 0.5
_NEAR: Final = 3
# Greetings, titles, fields and roles, which occur beside names.
_BESIDE_NAMES: Final = re.compile(
    f"{shared('salutations')}|(?i:{'|'.join(map(shared, ('titles', 'name_fields', 'role_fields')))})"
)
# Parts of institutions that are written like names.
_OF_INSTITUTIONS: Final = frozenset(
    (  # noqa: SIM905 - a table is read more easily as words
        "ministry ministerium ministère ministerio ministero ministerie ministério ministerstwo hacienda office büro "
        "bureau oficina ufficio kantoor escritório biuro department abteilung service département departamento "
        "dipartimento reparto afdeling dział obsługi kundendienst kundenservice klantenservice secretaría secrétariat"
    ).split()
)
_DAYS: Final = frozenset(
    (  # noqa: SIM905 - a table is read more easily as words
        "monday tuesday wednesday thursday friday saturday sunday "
        "montag dienstag mittwoch donnerstag freitag samstag sonnabend sonntag "
        "lundi mardi mercredi jeudi vendredi samedi dimanche lunes martes miércoles jueves viernes sábado domingo "
        "lunedì martedì mercoledì giovedì venerdì sabato domenica "
        "maandag dinsdag woensdag donderdag vrijdag zaterdag zondag segunda-feira terça-feira quarta-feira "
        "quinta-feira sexta-feira poniedziałek wtorek środa środę czwartek piątek "
        "sobota sobotę niedziela niedzielę"
    ).split()
)
# Words of closings, in small letters between a capital and a name.
_OF_CLOSINGS: Final = frozenset(
    {"powa\u017caniem", "wyrazami", "szacunkiem", "szacunku", "pozdrawiam", "pozdrowieniami"}
)
_BY_WORD: Final = {**dict.fromkeys(_DAYS, _NO_NAME), **dict.fromkeys(_OF_CLOSINGS, _IMPOSSIBLE)}
_BY_CAPITAL_WORD: Final = {**dict.fromkeys(_OF_INSTITUTIONS, _NO_NAME), **dict.fromkeys(words("people_nouns"), _NEVER)}
_HEXADECIMAL: Final = re.compile(r"0[xX][0-9a-fA-F]+")
# A code has capital letters only.
_CODE: Final = re.compile(r"[A-Z]+(?:[-_./]?[0-9]+)+[A-Z0-9._/-]*")
_BEFORE_SENTENCE: Final = '.!?:;>|*\u2022\u2013-"\u201c\u201e\u00ab\u00bf\u00a1('
PARTICLES: Final = frozenset(
    (
        *("von", "van", "der", "den", "de", "del", "della", "dei", "degli", "di", "da", "do"),
        *("dos", "das", "du", "des", "la", "le", "el", "al", "bin", "ben", "ibn", "ter"),
        *("ten", "zu", "zur", "zum", "vom", "af", "av", "d", "l", "san", "st"),
    )
)
"""Words in small letters inside of names."""


class Word(NamedTuple):
    """A word or run of words of a text, from `start` up to `end`.

    `entity` is the most likely entity type, and `likelihood` the probability, 0 to 1, that it has any.
    """

    start: int
    end: int
    entity: str
    likelihood: float


def line_around(text: str, word: Word) -> str:
    """Returns the lines that contain a word, without the last line break."""
    start, end = text.rfind("\n", 0, word.start) + 1, text.find("\n", word.end)
    return text[start:] if end < 0 else text[start:end]


def adjusted_by_column(text: str, words: Sequence[Word], columns: Sequence[Column]) -> list[Word]:
    """Returns the words of a text, with likelihoods in columns moved towards the column's average.

    A cell in a column of names is likely a name, even if unknown to the model, and a word in a column of states or
    colours is not, even if it looks like a name.
    """
    starts = [word.start for word in words]
    weighed_words = list(words)
    for column in columns:
        low, high = bisect.bisect_left(starts, column.start), bisect.bisect_left(starts, column.end)
        weighed_words[low:high] = _adjusted_in_column(text, words[low:high], column)
    return weighed_words


def _adjusted_in_column(text: str, words: Sequence[Word], column: Column) -> Sequence[Word]:
    cells: dict[int, list[Word]] = {}
    for word in words:
        start = text.rfind("\n", column.start, word.start) + 1 or column.start
        if word.start >= start + column.prefix:
            cells.setdefault(start, []).append(word)
    if len(cells) < _LEAST_CELLS or sum(map(len, cells.values())) > _MOST_WORDS * len(cells):
        return words
    average = sum(map(_mean, cells.values())) / len(cells)
    weight = _WEIGHT * min(len(cells) / _ENOUGH_CELLS, 1.0)
    shift = weight * (_logit(average) - _logit(_EVEN))
    shares: Counter[str] = Counter()
    for cell in cells.values():
        for word in cell:
            shares[word.entity] += word.likelihood  # type: ignore[assignment]  # typeshed: counts are integers
    [(entity, _)] = shares.most_common(1)
    inside = {word.start for cell in cells.values() for word in cell}
    return [
        word._replace(
            likelihood=1 / (1 + math.exp(-_logit(word.likelihood) - shift)),
            entity=entity if shift > 0 else word.entity,
        )
        for word in words
        if word.start in inside
    ]


def _mean(cell: Sequence[Word]) -> float:
    sizes = [word.end - word.start for word in cell]
    return sum(word.likelihood * size for word, size in zip(cell, sizes, strict=True)) / sum(sizes)


def _logit(share: float) -> float:
    share = min(max(share, _LEAST), 1 - _LEAST)
    return math.log(share / (1 - share))


def adjusted_by_spelling(text: str, words: Sequence[Word], columns: Sequence[Column]) -> list[Word]:
    """Returns the words with likelihoods adjusted by spelling; words in columns stay unchanged."""
    bounds = [place for column in columns for place in (column.start, column.end)]
    shaped_words = []
    for index, word in enumerate(words):
        if bisect.bisect_right(bounds, word.start) % 2:
            shaped_words.append(word)
            continue
        near = [other for other in words[max(index - 1, 0) : index + 2] if other is not word and _is_near(word, other)]
        shift = _shift(text, word, near)
        shaped_words.append(word._replace(likelihood=_shifted(word.likelihood, shift)))
    return shaped_words


def _is_near(word: Word, other: Word) -> bool:
    return max(word.start - other.end, other.start - word.end) <= _NEAR


def _shift(text: str, word: Word, near: Sequence[Word]) -> float:
    written = text[word.start : word.end]
    digits = sum(map(str.isdigit, written))
    if word.entity not in _SMALL or digits:
        return _shift_of_number(word, written, digits, near)
    if (shift := _BY_WORD.get(written.lower())) is not None:
        return shift
    if written[0].islower():
        line = line_around(text, word)
        if line == line.lower():
            return _SMALL_IN_SMALL_LINE[word.entity]
        return _SMALL[word.entity]
    if (shift := _BY_CAPITAL_WORD.get(written.lower())) is not None:
        return shift
    if word.entity == "PERSON" and (_BESIDE_NAMES.fullmatch(written) is not None or not may_be_person(written)):
        return _NO_NAME
    shift_by_neighbours = _BESIDE_NAME * any(
        other.entity == word.entity and other.likelihood >= _LIKELY and text[other.start].isupper() for other in near
    )
    if written.isupper() and len(written) > 1:
        return _FIRST_OF_SENTENCE["PERSON"] + shift_by_neighbours
    before = text[max(word.start - 8, 0) : word.start].rstrip(" \t")
    first = not before or before[-1] in _BEFORE_SENTENCE or before[-1] in "\r\n"
    return _FIRST_OF_SENTENCE[word.entity] if first else _CAPITAL[word.entity] + shift_by_neighbours


def _shift_of_number(word: Word, written: str, digits: int, near: Sequence[Word]) -> float:
    if word.entity == "LOCATION":
        in_address = any(other.entity == "LOCATION" and other.likelihood >= _LIKELY for other in near)
        return _NUMBER_IN_ADDRESS if in_address else _NUMBER["LOCATION"]
    if word.entity == "PHONE_NUMBER":
        return _NUMBER["PHONE_NUMBER"]
    if word.entity == "PERSON":
        return _NEVER if _CODE.fullmatch(written) is not None else 0.0
    if digits < _LEAST_DIGITS or _HEXADECIMAL.fullmatch(written) is not None:
        return _IMPOSSIBLE
    return _PLAIN_ID if written.isdigit() else _ID


def _shifted(likelihood: float, shift: float) -> float:
    odds = max(likelihood, 1e-6) / max(1 - likelihood, 1e-6) * math.exp(shift)
    return odds / (1 + odds)
