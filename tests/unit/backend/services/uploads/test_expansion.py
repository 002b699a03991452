"""Answers of the processes that expand zips, which a zip may have taken over."""

from typing import Any

import pytest

from backend.services.uploads.expansion import ZipRefusedError, checked_members


def test_the_members_that_fill_the_content_are_taken() -> None:
    assert checked_members({"members": [["a", 1], ["b/c%2541", 0]]}, 1) == [("a", 1), ("b/c%2541", 0)]


@pytest.mark.parametrize(
    "answer",
    [
        None,
        [],
        {},
        {"members": {"a": 1}},
        {"members": [7]},
        {"members": [["a"]]},
        {"members": [["a", 1, 2]]},
        {"members": [["a", "one"]]},
        {"members": [["a", None]]},
        {"members": [["a", True]]},
        {"members": [["a", 1.0]]},
        {"members": [[None, 1]]},
        {"members": [["a", 2], ["b", -1]]},
        {"members": [["a", 2]]},
        {"members": [["a", 1], ["a", 0]]},
        {"members": [["../a", 1]]},
        {"members": [["/a", 1]]},
        {"members": [["\ud800", 1]]},
        {"members": [["a\\0", 1]]},
        {"members": [["a", 1], *([str(number), 0] for number in range(2_000))]},
        {"problem": 7},
    ],
)
def test_an_answer_that_is_malformed_refuses_the_zip(answer: Any) -> None:
    with pytest.raises(ZipRefusedError, match=r"^cannot be read$"):
        checked_members(answer, 1)


def test_a_problem_is_shown_within_bounds() -> None:
    with pytest.raises(ZipRefusedError) as refused:
        checked_members({"problem": "bad\n\u202e" + "x" * 100_000}, 0)
    assert str(refused.value) == "bad\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}" + "x" * 995 + "…"
