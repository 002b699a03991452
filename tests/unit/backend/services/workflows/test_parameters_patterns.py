"""Patterns of manifests."""

import pytest

from backend.services.workflows.parameters import check_pattern, is_quick, matches


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


@pytest.mark.parametrize("pattern", ["", "[a-zA-Z0-9_-]{1,64}", r"\d{4}-\d{2}-\d{2}", r"s3://[a-z0-9.-]{3,63}/.*"])
def test_ordinary_patterns_are_matched_quickly(pattern: str) -> None:
    assert is_quick(pattern)


@pytest.mark.parametrize("pattern", ["((((a|b)?){9}){9}){9}c", "(a?){300}a{300}", "([a-z]*[0-9]?){100}$"])
def test_repetition_of_repetition_is_not_quick(pattern: str) -> None:
    assert not is_quick(pattern)
