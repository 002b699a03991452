"""Words that say what the value below them is."""

import pytest

from redaction.entity_types import ENTITY_TYPES
from redaction.search.finder import Finder
from redaction.search.piece_labels import PieceLabels


@pytest.fixture(name="finder", scope="module")
def _finder() -> Finder:
    return Finder(ENTITY_TYPES, 0.8)


def hidden(finder: Finder, text: str) -> list[tuple[str, str]]:
    return [(match.entity, text[match.start : match.end]) for match in finder.find(text)]


@pytest.mark.parametrize(
    ("text", "entity", "value"),
    [
        ("Bot: Geburtsdatum?\nKunde: 12.4.66\n", "DATE_TIME", "12.4.66"),
        ("y fecha de nacimiento\n4 de octubre del 91\n", "DATE_TIME", "4 de octubre del 91"),
        ("whats his sort code\n20-18-35 i think\n", "US_BANK_NUMBER", "20-18-35"),
        ("your phone number please\r\nsure 4155552671\r\n", "PHONE_NUMBER", "4155552671"),
        ("Date of birth\n3/7/64\n", "DATE_TIME", "3/7/64"),
    ],
)
def test_a_value_on_the_line_below_its_name_is_found(finder: Finder, text: str, entity: str, value: str) -> None:
    assert hidden(finder, text) == [(entity, value)]


@pytest.mark.parametrize(
    "text",
    [
        "Geburtsdatum?\n\n12.4.66",
        "Geburtsdatum 3 von 4?\n12.4.66",
        "the phone that we all had wanted for so long has come\n4155552671",
        f"{'so ' * 40}phone\n4155552671",
        f"phone?\n{'so ' * 14}4155552671",
    ],
    ids=["empty line", "number between", "far from its end", "long line", "far from its beginning"],
)
def test_a_name_of_values_elsewhere_above_says_nothing(finder: Finder, text: str) -> None:
    assert hidden(finder, text) == []


def test_a_name_in_the_cell_above_says_nothing(finder: Finder) -> None:
    text = "phone\n4155552671\n"
    assert finder.find(text, PieceLabels([0, 6, 17], ["a", "b"])) == []


def test_the_day_and_a_short_year_in_words_are_a_date(finder: Finder) -> None:
    assert hidden(finder, "it was the third of May eighty-seven") == [("DATE_TIME", "third of May eighty-seven")]
