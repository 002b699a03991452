import json
from typing import Any

import pytest

from backend.isolation.sandbox.inside.plain_json import deeper_than


def nested(levels: int) -> Any:
    value: Any = "[{]}"
    for level in range(levels):
        value = [value] if level % 2 else {'a"[\\': value, "b": "]"}
    return value


@pytest.mark.parametrize("levels", [1, 2, 99, 100, 101, 900])
def test_levels_are_counted_exactly(levels: int) -> None:
    text = json.dumps([nested(levels - 1)]).encode()
    assert not deeper_than(text, levels)
    assert deeper_than(text, levels - 1)


BRACKETS = ("[" * 1000, '"[' * 1000, '\\"[' * 1000, "\\" * 7 + '"' + "[" * 1000)


@pytest.mark.parametrize("value", [*BRACKETS, [["\\"] * 1000] * 2, [[]] * 1000, [{}] * 1000])
def test_brackets_in_strings_and_beside_one_another_are_no_levels(value: object) -> None:
    assert not deeper_than(json.dumps(value).encode(), 2)
    assert deeper_than(json.dumps([[[value]]]).encode(), 2)


def test_a_level_far_into_the_text_is_seen() -> None:
    text = b"[" + b"[]," * 100_000 + b"[" * 100 + b"]" * 101
    assert deeper_than(text, 100)
    assert not deeper_than(text, 101)


@pytest.mark.parametrize("text", [b"]" * 1000, b'"' + b"[" * 1000, b'"\\"' * 1000 + b"[" * 1000, b"\\" * 1001])
def test_malformed_text_is_measured_without_an_error(text: bytes) -> None:
    deeper_than(text, 100)


HOSTILE = (b"[" * 8_000_000, b"[]" * 4_000_000, b'"\\"' * 2_700_000 + b"[" * 101, b'["' * 4_000_000)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_of_8_mb_is_measured_in_one_pass(text: bytes) -> None:
    """Would not end in time if each bracket or quote took a scan of the rest."""
    deeper_than(text, 100)
