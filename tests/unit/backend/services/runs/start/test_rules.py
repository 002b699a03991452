import json
from typing import Any

import pytest

from backend.common.errors import ApiError
from backend.services.runs.start.rules import ParsedStart, parse_start
from workflow_api.v1 import runs_pb2


def parsed_start(key_id: str | None = "ak_1", **fields: Any) -> ParsedStart:
    request = runs_pb2.StartRunRequest(**({"workflow_id": "wf_1", "idempotency_key": "k"} | fields))
    return parse_start(request, key_id, 7)


def test_integers_of_any_size_are_exact() -> None:
    large = 2**200 + 1
    assert parsed_start(parameters=json.dumps({"n": large})).parameters == {"n": large}
    assert (
        parsed_start(parameters=f'{{"n":{large}}}').fingerprint
        != parsed_start(parameters=f'{{"n":{large + 1}}}').fingerprint
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"parameters": '{"a":1,"b":[1,2]}'}, {"parameters": ' { "b" : [1, 2], "a" : 1 } '}),
        ({"parameters": '{"a":"é"}'}, {"parameters": '{"a":"\\u00e9"}'}),
        ({"parameters": '{"a":1e2}'}, {"parameters": '{"a":100.0}'}),
        ({"labels": {"a": "1", "b": "2"}}, {"labels": {"b": "2", "a": "1"}}),
        ({}, {"pii_policy_override": "{}"}),
        ({"idempotency_key": "x"}, {"idempotency_key": "y"}),
    ],
)
def test_equal_bodies_have_one_fingerprint(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert parsed_start(**one).fingerprint == parsed_start(**other).fingerprint


def test_every_field_of_the_body_and_the_workflow_are_in_the_fingerprint() -> None:
    variants: list[dict[str, Any]] = [
        {},
        {"workflow_id": "wf_2"},
        {"parameters": '{"a":[1,2]}'},
        {"parameters": '{"a":[2,1]}'},
        {"parameters": '{"a":"1"}'},
        {"parameters": '{"a":1}'},
        {"parameters": '{"a":true}'},
        {"input_text": ""},
        {"input_text": "x"},
        {"client_reference": "x"},
        {"labels": {"x": ""}},
        {"labels": {"": "x"}},
        {"pii_policy_override": '{"mode":"redact"}'},
        {"pii_policy_override": '{"mode":"detect"}'},
        {"version": 1},
    ]
    assert len({parsed_start(**variant).fingerprint for variant in variants}) == len(variants)


@pytest.mark.parametrize("depth", range(900, 1010, 5))
def test_deep_nesting_is_read_or_refused_and_no_failure(depth: int) -> None:
    try:
        parsed_start(parameters='{"a":' + "[" * depth + "]" * depth + "}")
    except ApiError as refusal:
        assert refusal.problems == (("parameters", "must be JSON"),)  # noqa: PT017 - either outcome is right


def test_the_caller_decides_what_triggered_the_run() -> None:
    schedule = runs_pb2.TRIGGERED_BY_SCHEDULE
    assert parsed_start(triggered_by=schedule).triggered_by == "api_key"
    assert parsed_start(None, triggered_by=schedule).triggered_by == "schedule"
    assert parsed_start(None).triggered_by == "console"
