"""Addresses and phone numbers that people dictate."""

import pytest

from redaction.entity_types import ENTITY_TYPES
from redaction.search.finder import Finder


@pytest.fixture(name="finder", scope="module")
def _finder() -> Finder:
    return Finder(ENTITY_TYPES, 0.8)


def hidden(finder: Finder, text: str) -> list[tuple[str, str]]:
    return [(match.entity, text[match.start : match.end]) for match in finder.find(text)]


@pytest.mark.parametrize(
    "address",
    [
        "jane dot doe at example dot org",
        "Jane underscore Doe at mail dot example dot org",
        "jane punkt doe at beispiel punkt de",
        "jane point doe arobase exemple point fr",
        "jane.doe arroba ejemplo.es",
        "jane apenstaartje voorbeeld punt nl",
        "jane kropka doe ma\u0142pa przyklad kropka pl",
        "jane chiocciola esempio punto it",
    ],
)
def test_an_address_dictated_in_words_is_found(finder: Finder, address: str) -> None:
    assert hidden(finder, f"so {address}, ok") == [("EMAIL_ADDRESS", address)]


@pytest.mark.parametrize(
    "text",
    [
        "we met at boiling point where it began",
        "info at example dot org",
        "look at the red dot on it",
        "una arroba de uvas, punto y aparte",
        "elle a mis un point au tableau",
    ],
)
def test_words_for_signs_in_other_sentences_make_no_address(finder: Finder, text: str) -> None:
    assert hidden(finder, text) == []


@pytest.mark.parametrize(
    "number",
    [
        "oh seven seven double oh, nine hundred, four five one",
        "five five five, one two three four",
        "null eins sieben sechs, dreiunddreißig vierzig elf",
        "zéro six douze trente-quatre cinquante-six soixante-dix",
        "seis uno dos, cuarenta y ocho, noventa y tres, siete",
        "nul zes twee vier acht een zeven drie",
        "pi\u0119\u0107 zero pi\u0119\u0107 jeden jeden osiem dwa",
    ],
)
def test_a_number_dictated_in_words_is_a_phone_number(finder: Finder, number: str) -> None:
    assert hidden(finder, f"ja: {number}.") == [("PHONE_NUMBER", number)]


@pytest.mark.parametrize(
    "text",
    [
        "one hundred and twenty three thousand four hundred and fifty six",
        "three, two, one, go",
        "nineteen eighty four and two thousand and one",
        "deux cent quarante-trois mille cinq cents",
    ],
)
def test_an_amount_or_a_year_in_words_is_none(finder: Finder, text: str) -> None:
    assert hidden(finder, text) == []
