"""Patterns of the files that agents attach."""

import time

import pytest

from backend.services.workflows.attached_files import PATTERN, attach_patterns, matches, named_step


@pytest.mark.parametrize(
    "pattern",
    ["inputs/uploads/a.png", "inputs/uploads/*.png", "inputs/**/*.pdf", "files/extract/**", "files/*/p[0-9]?.pdf"],
)
def test_a_pattern_begins_with_inputs_or_files(pattern: str) -> None:
    assert PATTERN.fullmatch(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        *("*.png", "uploads/*.png", "/inputs/uploads/a", "inputs", "inputs/", "inputs/*.png", "files/extract/"),
        *("inputs/../a", "inputs/uploads/..", "inputs/./a", "inputs/uploads//a", "inputs/a\\b/c", "inputs/a/b\0"),
        *("inputs/uploads/**.png", "inputs/uploads/a**"),
    ],
)
def test_other_patterns_are_refused(pattern: str) -> None:
    assert not PATTERN.fullmatch(pattern)


@pytest.mark.parametrize(
    ("path", "pattern", "matched"),
    [
        ("inputs/uploads/a.png", "inputs/uploads/*.png", True),
        ("inputs/uploads/A.PNG", "inputs/uploads/*.png", False),
        ("inputs/uploads/deep/a.png", "inputs/uploads/*.png", False),
        ("inputs/uploads/deep/a.png", "inputs/**/*.png", True),
        ("inputs/uploads/a.png", "inputs/**/uploads/**/a.png", True),
        ("inputs/uploads/a.png", "inputs/uploads/a.png/**", True),
        ("inputs/uploads/a.png", "files/**", False),
        ("files/extract/7/p1.pdf", "files/extract/*/p[0-9].pdf", True),
        ("files/extract/p1.pdf", "files/extract/p?.pdf", True),
        ("files/extract/p[.pdf", "files/extract/p[.pdf", True),
    ],
)
def test_stars_stay_within_a_part(path: str, pattern: str, matched: bool) -> None:
    assert matches(path, pattern) is matched


def test_a_hostile_pattern_is_matched_in_little_time() -> None:
    began = time.process_time()
    assert not matches(f"inputs/uploads/{'a' * 200}", f"inputs/uploads/{'*a' * 80}*b")
    assert not matches("inputs/" + "a/" * 400 + "b", f"inputs{'/**/a' * 30}/c")
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    ("pattern", "step"),
    [("files/extract/*.pdf", "extract"), ("files/*/a", None), ("files/**", None), ("inputs/uploads/a", None)],
)
def test_a_pattern_may_name_a_step(pattern: str, step: str | None) -> None:
    assert named_step(f"{pattern}/x") == step


def test_only_agents_that_call_a_model_attach_files() -> None:
    assert attach_patterns({"type": "llm", "attach": ["inputs/**/a"]}) == ["inputs/**/a"]
    assert not attach_patterns({"type": "llm"})
    assert not attach_patterns({"type": "python", "attach": ["inputs/**/a"]})
