"""Patterns of manifests."""

import pytest

from backend.workflows.patterns import check_pattern, matches


@pytest.mark.parametrize(
    ("pattern", "value", "fits"),
    [
        (r"^[^\u0000]*$", "abc", True),
        (r"^[^\u0000]*$", "a\0", False),
        (r"^\u00e9$", "é", True),
        (r"\\u00e9", r"\u00e9", True),
        (r"\\u00e9", "é", False),
        (r"^(a+)+$", "a" * 60 + "b", False),
    ],
)
def test_characters_may_be_written_as_json_schema_does(pattern: str, value: str, fits: bool) -> None:
    assert matches(check_pattern(pattern), value) is fits


@pytest.mark.parametrize("pattern", [r"(a)\1", "(?=a)", "(", "a" * 1_001])
def test_what_cannot_be_matched_in_linear_time_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="must"):
        check_pattern(pattern)
