"""Recognizer of personal data that runs the local model."""

import re
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from redaction.entity_types import ENTITY_TYPES
from redaction.local_model.number_support import is_supported, names_numbers
from redaction.local_model.things import without_things
from redaction.local_model.weighed_words import PARTICLES, Word, adjusted_by_column, adjusted_by_spelling, line_around
from redaction.model import Column, Mention, ModelExhaustedError, ModelNotInstalledError

# Least likelihood of a word next to a word of a value, and of a single word that is a value.
_BESIDE: Final = 0.08
_ALONE: Final = 0.1
# Least likelihood of a word in small letters at the beginning or end of a value.
_SMALL: Final = 0.4
# Confidence is LOWEST for likelihood 0 and grows linearly up to HIGHEST: 0.8 for likelihood 0.4.
_LOWEST: Final = 0.4
_HIGHEST: Final = 0.95
# Text between the words of one value: commas in places, particles in names, never a line break.
_PARTICLE: Final = rf"(?:{'|'.join(sorted(PARTICLES))})"
_GAPS: Final = {
    "LOCATION": re.compile(rf"[ \t]{{0,3}}[,.]?[ \t]{{0,3}}(?:{_PARTICLE} )?"),
    "PERSON": re.compile(rf"[ \t]{{1,3}}(?:{_PARTICLE} ){{0,2}}(?:[dl]['\u2019])?|\.[ \t]{{0,3}}"),
    "": re.compile(r"[ \t]{1,3}|\.[ \t]{0,3}"),
}
# Initials before a family name, with its particles.
_INITIALS: Final = re.compile(rf"(?<![^\W_])(?:[A-Z]\.[ -]?){{1,3}}(?:{_PARTICLE} ){{0,2}}\Z")
_LONGEST_INITIALS: Final = 24
_POSSESSIVE: Final = re.compile("['\u2019]s\\Z")
# Least length of a name that is looked for everywhere in the text.
_FOUND_AGAIN: Final = 4
_LONG_NUMBER: Final = 7
_NAMES_AND_PLACES: Final = frozenset({"PERSON", "LOCATION"})
_BESIDE_PLACE: Final = 3
_AROUND: Final = " \t\r\"'"
_PLACEHOLDER: Final = re.compile(rf"\[(?:{'|'.join(sorted(ENTITY_TYPES))})\]")


class LocalRecognizer:
    """Recognizer that runs the local model for at most `seconds` of processor time in all."""

    def __init__(self, seconds: float) -> None:
        self._seconds_left = seconds

    def find(self, text: str, categories: Collection[str], columns: Sequence[Column] = ()) -> Sequence[Mention]:
        """Returns the mentions of values of these entity types, each with its position.

        Raises:
            ModelExhaustedError: the processor time is used up.
            ModelNotInstalledError: a package that the model needs is missing.
        """
        if self._seconds_left <= 0:
            raise ModelExhaustedError
        began = time.process_time()
        try:
            from redaction.local_model.token_classifier import token_classifier
        except ImportError:
            raise ModelNotInstalledError from None
        breaks = sorted({place for column in columns for place in (column.start, column.end)})
        found = adjusted_by_spelling(
            text, adjusted_by_column(text, token_classifier().words(text, breaks), columns), columns
        )
        words = [word for word in without_things(text, found) if _counts(text, word)]
        self._seconds_left -= time.process_time() - began
        return list(_mentions(text, words, categories))


def _mentions(text: str, words: Iterable[Word], categories: Collection[str]) -> Iterator[Mention]:
    swept = [found.span() for found in _PLACEHOLDER.finditer(text)]
    names: dict[str, float] = {}
    spans = list(_joined(text, words))
    for index, span in enumerate(spans):
        if (
            span.likelihood < _ALONE
            or span.entity not in categories
            or any(low < span.end and span.start < high for low, high in swept)
        ):
            continue
        quote, score = text[span.start : span.end], min(_LOWEST + span.likelihood, _HIGHEST)
        start = span.start
        if span.entity == "PERSON":
            quote = _POSSESSIVE.sub("", quote)
            if (initials := _INITIALS.search(text, max(start - _LONGEST_INITIALS, 0), start)) is not None:
                start = initials.start()
        if sum(map(str.isdigit, quote)) < _LONG_NUMBER and not any(map(str.isalpha, quote)) and _is_line(text, span):
            # Cells of a table are lines too, and only the column's name shows what a short number is.
            continue
        if not _is_of_person(text, span, spans[max(index - 1, 0) : index + 2]):
            continue
        yield Mention(span.entity, text[start : span.start] + quote, score, start)
        if span.entity == "PERSON" and len(quote) >= _FOUND_AGAIN:
            names[quote] = max(score, names.get(quote, 0.0))
    for name, score in names.items():
        yield Mention("PERSON", name, score)


def _is_of_person(text: str, span: Word, around: Sequence[Word]) -> bool:
    quote = text[span.start : span.end]
    has_digits, has_letters = any(map(str.isdigit, quote)), any(map(str.isalpha, quote))
    if span.entity in _NAMES_AND_PLACES:
        if has_letters:
            return has_digits or not names_numbers(text, span)
        return span.entity != "LOCATION" or _is_beside_place(text, span, around) or is_supported(text, span)
    return has_digits and is_supported(text, span)


def _is_beside_place(text: str, span: Word, around: Iterable[Word]) -> bool:
    """Returns whether a number is next to the name of a place, apart from a short separator."""
    return any(
        other.entity == "LOCATION"
        and any(map(str.isalpha, text[other.start : other.end]))
        and "\n" not in (gap := text[min(other.end, span.end) : max(other.start, span.start)])
        and len(gap) <= _BESIDE_PLACE
        for other in around
        if other is not span
    )


def _is_line(text: str, span: Word) -> bool:
    return line_around(text, span).strip(_AROUND) == text[span.start : span.end]


def _counts(text: str, word: Word) -> bool:
    small = text[word.start].islower() and word.entity in _NAMES_AND_PLACES
    return word.likelihood >= (_SMALL if small else _BESIDE)


def _joined(text: str, words: Iterable[Word]) -> Iterator[Word]:
    """Yields each run of words of one entity type as a value, with the likelihood of its most likely word."""
    last: Word | None = None
    for word in words:
        if last is not None:
            gap = _GAPS.get(word.entity, _GAPS[""])
            if last.entity == word.entity and gap.fullmatch(text, last.end, word.start):
                last = Word(last.start, word.end, word.entity, max(last.likelihood, word.likelihood))
                continue
            yield last
        last = word
    if last is not None:
        yield last
