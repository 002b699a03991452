import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.redaction.rules.rule import Match
from backend.redaction.search import spans
from backend.redaction.search.spans import resolved, windows


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
