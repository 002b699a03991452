import json

import pytest

from console.rendering.formatting import Badge, duration, json_lines, run_badge, size, step_badge, workflow_badge
from workflow_api.v1.runs_pb2 import RunStatus, StepStatus
from workflow_api.v1.workflows_pb2 import WorkflowStatus


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1000, "1 s"),
        (3250, "3.2 s"),
        (59_999, "59.9 s"),
        (60_000, "1 min 0 s"),
        (245_000, "4 min 5 s"),
        (7_380_000, "2 h 3 min"),
        (90_000_000, "1 d 1 h"),
    ],
)
def test_a_duration_has_its_two_largest_units(milliseconds: int, text: str) -> None:
    assert duration(milliseconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (812, "812 B"), (4100, "4.1 kB"), (25_000_000, "25 MB"), (500_000_000_000, "500.0 GB")],
)
def test_a_size_is_in_powers_of_1000(count: int, text: str) -> None:
    assert size(count) == text


def test_every_status_has_a_word() -> None:
    badges = [run_badge(s) for s in RunStatus.values() if s] + [step_badge(s) for s in StepStatus.values() if s]
    badges += [workflow_badge(s) for s in WorkflowStatus.values() if s]
    assert all(badge.text != "unknown" and "_" not in badge.text for badge in badges)
    assert run_badge(99) == Badge("unknown")


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "[]",
        '{"a":[1,{"b":[]},{}],"c":"d"}',
        "[1e999,0.10,-1,true,null,123456789012345678901234567890]",
        r'{"quoted \" [":"x, {y}: \\"}',
        '"text"',
        '{"\u202e":"a\\\\\u2066b"}',
    ],
)
def test_indented_json_has_the_same_value(text: str) -> None:
    lines = json_lines(text)
    assert json.loads(lines, parse_float=str, parse_int=str) == json.loads(text, parse_float=str, parse_int=str)


def test_json_shows_what_would_turn_its_text_around() -> None:
    assert json_lines('{"to":"\u202eecila"}') == '{\n  "to": "\\u202eecila"\n}'


def test_json_is_indented() -> None:
    assert json_lines('{"a":[1,2],"b":{}}') == '{\n  "a": [\n    1,\n    2\n  ],\n  "b": {}\n}'


def test_no_depth_of_json_is_too_deep() -> None:
    text = json_lines("[" * 100_000 + "]" * 100_000)
    assert text.count("[") == 100_000
    assert len(text) < 300_000
