"""Run parameters against the version's contract. (contract 11.13, 12.23)"""

import uuid
from typing import Any

import pytest

from tests.support.client import Caller
from tests.support.expect import invalid

BAD: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a required one is missing": ({}, ["word"]),
    "a required one is null": ({"word": None}, ["word"]),
    "not a string": ({"word": 1}, ["word"]),
    "too short": ({"word": "a"}, ["word"]),
    "too long": ({"word": "abcdef"}, ["word"]),
    "not its pattern": ({"word": "AB"}, ["word"]),
    "not the whole of its pattern": ({"word": "ab1"}, ["word"]),
    "not among the allowed": ({"word": "ab", "language": "de"}, ["language"]),
    "a fraction for an integer": ({"word": "ab", "number": 1.5}, ["number"]),
    "a boolean for an integer": ({"word": "ab", "number": True}, ["number"]),
    "too small": ({"word": "ab", "number": 0}, ["number"]),
    "too large": ({"word": "ab", "number": 10}, ["number"]),
    "a share too large": ({"word": "ab", "share": 1.01}, ["share"]),
    "a string for a boolean": ({"word": "ab", "loud": "true"}, ["loud"]),
    "no date": ({"word": "ab", "day": "yesterday"}, ["day"]),
    "a day that is none": ({"word": "ab", "day": "2026-02-30"}, ["day"]),
    "one that is not declared": ({"word": "ab", "colour": "red"}, ["colour"]),
    "several at once": ({"number": 0, "loud": 1, "colour": "red"}, ["word", "number", "loud", "colour"]),
}


@pytest.mark.parametrize("what", BAD)
def test_parameters_that_fail_are_each_reported(resident: Caller, flows: dict[str, str], what: str) -> None:
    parameters, names = BAD[what]
    invalid(resident.start(flows["Typed"], parameters=parameters), *names, code="invalid_parameters")


def test_a_workflow_without_parameters_takes_none(resident: Caller, flows: dict[str, str]) -> None:
    invalid(resident.start(flows["Echo"], parameters={"x": 1}), "x", code="invalid_parameters")


def test_a_run_shows_and_gets_the_effective_parameters_with_defaults(caller: Caller, flows: dict[str, str]) -> None:
    given = {"word": "abcde", "number": 9, "share": 0.5, "day": "2028-02-29", "extra": {"a": [1, None, "é"]}}
    answer = caller.start(flows["Typed"], parameters=given)
    assert answer.status == 201, answer
    effective = answer.json()["parameters"]
    assert {name: value for name, value in effective.items() if value is not None} == {
        **given,
        "language": "en",
        "loud": False,
    }
    run = caller.wait(answer.json()["run_id"], "completed")
    assert run["parameters"] == effective
    seen = run["result"]["parameters"]
    assert {name: value for name, value in seen.items() if value is not None} == {
        **given,
        "language": "en",
        "loud": False,
    }


@pytest.mark.parametrize(
    "value", [10**30, -(2**63) - 1, 2**64 - 1, 1e300, 0.1, "\U0001f600", "", [], {}, [[[None]]], False]
)
def test_a_json_value_is_kept_exactly(resident: Caller, flows: dict[str, str], value: Any) -> None:
    run = resident.finished(flows["Typed"], parameters={"word": "ab", "extra": value})
    assert run["parameters"]["extra"] == value
    assert type(run["parameters"]["extra"]) is type(value)
    assert run["result"]["parameters"]["extra"] == value


def test_null_is_a_value_of_the_type_json_and_replaces_its_default(resident: Caller, flows: dict[str, str]) -> None:
    run = resident.finished(flows["Settings"], parameters={"needed": None, "filled": None})
    assert run["parameters"] == {"needed": None, "filled": None}
    assert run["result"]["parameters"] == {"needed": None, "filled": None}


def test_a_parameter_of_the_type_json_that_is_not_given_takes_its_default(
    resident: Caller, flows: dict[str, str]
) -> None:
    run = resident.finished(flows["Settings"], parameters={"needed": 0})
    assert run["parameters"] == {"needed": 0, "filled": {"a": 1}}
    invalid(resident.start(flows["Settings"], parameters={"filled": None}), "needed", code="invalid_parameters")


def test_a_fraction_is_kept_as_a_double_and_an_integer_exactly(resident: Caller, flows: dict[str, str]) -> None:
    body = b'{"parameters":{"word":"ab","extra":[0.1000000000000000055511151231257827,123456789012345678901234567890]}}'
    headers = {"Idempotency-Key": uuid.uuid4().hex}
    answer = resident.call("POST", f"/workflows/{flows['Typed']}/runs", headers=headers, body=body)
    run = resident.wait(answer.json()["run_id"])
    assert run["result"]["parameters"]["extra"] == [0.1, 123456789012345678901234567890]


def test_a_null_character_deep_in_a_parameter_is_refused(resident: Caller, flows: dict[str, str]) -> None:
    for extra in ({"a": ["b\0"]}, {"a\0": 1}):
        answer = resident.start(flows["Typed"], parameters={"word": "ab", "extra": extra})
        assert answer.code == "invalid_request", answer
        assert all(problem["name"].startswith("parameters") for problem in answer.error["details"])
