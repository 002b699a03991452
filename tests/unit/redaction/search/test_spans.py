import pytest
from hypothesis import given
from hypothesis import strategies as st

from redaction.rules.rule import Match
from redaction.search import spans
from redaction.search.spans import resolved, typed_by_rules, windows


@given(text=st.text(alphabet="ab\n", max_size=300), window=st.integers(1, 40))
def test_windows_answer_for_every_character_once(text: str, window: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spans, "WINDOW", window)
        cut = list(windows(text))
    assert "".join(text[start:end] for start, end, _, _ in cut) == text
    assert all(low <= start < end <= high for start, end, low, high in cut)


def test_overlapping_matches_become_the_longest() -> None:
    found = [
        Match(5, 9, "UK_NHS", 0.6),
        Match(0, 7, "URL", 0.9),
        Match(5, 9, "PHONE_NUMBER", 0.8),
        Match(9, 10, "NRP", 1),
    ]
    assert resolved(found) == [Match(0, 9, "URL", 0.9), Match(9, 10, "NRP", 1)]


def test_what_a_model_found_takes_the_type_of_the_value_of_a_rule_that_it_overlaps() -> None:
    found = [(0, 9, "IP_ADDRESS", 0.85), (12, 20, "IBAN_CODE", 1.0), (14, 17, "UK_NHS", 0.9)]
    guesses = [(5, 30, "US_BANK_NUMBER", 0.95), (10, 12, "PERSON", 0.8), (16, 40, "LOCATION", 0.9)]
    assert typed_by_rules(guesses, found) == [
        (5, 30, "IP_ADDRESS", 0.85),
        (10, 12, "PERSON", 0.8),
        (16, 40, "IBAN_CODE", 1.0),
    ]
