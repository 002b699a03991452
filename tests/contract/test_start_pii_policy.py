"""`pii_policy_override` may only tighten. (contract 21.3 to 21.6)"""

from typing import Any

import pytest

from tests.support.client import Caller
from tests.support.expect import refused

# The workflow's policy: detect, EMAIL_ADDRESS, outputs, 0.8, 200 model calls.
LOOSER = {
    "mode": {"mode": "off"},
    "categories": {"categories": ["PHONE_NUMBER"]},
    "stages": {"stages": ["inputs"]},
    "min_confidence": {"min_confidence": 0.85},
    "max_model_calls": {"max_model_calls": 199},
}
INVALID: dict[str, tuple[object, str]] = {
    "no object": ("redact", "pii_policy_override"),
    "a list": ([], "pii_policy_override"),
    "an unknown field": ({"colour": 1}, "colour"),
    "an unknown mode": ({"mode": "hide"}, "mode"),
    "a mode that is no string": ({"mode": 1}, "mode"),
    "categories that are no list": ({"categories": 5}, "categories"),
    "an unknown stage": ({"stages": ["outputs", "dreams"]}, "stages"),
    "confidence too low": ({"min_confidence": 0.45}, "min_confidence"),
    "confidence too high": ({"min_confidence": 1.05}, "min_confidence"),
    "confidence between steps": ({"min_confidence": 0.72}, "min_confidence"),
    "too many model calls": ({"max_model_calls": 100_001}, "max_model_calls"),
    "a model that is none": ({"model": "gpt-5"}, "model"),
    "a model that the deployment cannot call": ({"model": "absent:gpt-5"}, "model"),
    "a negative number of model calls": ({"max_model_calls": -1}, "max_model_calls"),
    "a fraction of model calls": ({"max_model_calls": 1.5}, "max_model_calls"),
    "too many sample rows": ({"parquet_sample_rows": 50_001}, "parquet_sample_rows"),
    "invalid beside looser": ({"mode": "off", "stages": ["dreams"]}, "stages"),
}
TIGHTER: dict[str, dict[str, object]] = {
    "nothing": {},
    "the same": {"mode": "detect", "categories": ["EMAIL_ADDRESS"], "stages": ["outputs"], "min_confidence": 0.8},
    "all categories": {"categories": "all"},
    "more categories": {"categories": ["EMAIL_ADDRESS", "PHONE_NUMBER"]},
    "more stages": {"stages": ["inputs", "steps", "outputs"]},
    "lower confidence": {"min_confidence": 0.5},
    "more model calls": {"max_model_calls": 100_000},
}


@pytest.mark.parametrize("field", LOOSER)
def test_a_loosening_is_refused_with_its_field(resident: Caller, flows: dict[str, str], field: str) -> None:
    answer = resident.start(flows["Detecting"], pii_policy_override=LOOSER[field])
    refused(answer, 400, "policy_not_tightening", {"field": field})


@pytest.mark.parametrize("what", INVALID)
def test_an_invalid_override_is_refused_with_its_field(resident: Caller, flows: dict[str, str], what: str) -> None:
    override, field = INVALID[what]
    answer = resident.start(flows["Detecting"], pii_policy_override=override)
    refused(answer, 400, "invalid_pii_policy", {"field": field})


@pytest.mark.parametrize("what", TIGHTER)
def test_a_tightening_is_taken_and_shown(caller: Caller, flows: dict[str, str], what: str) -> None:
    answer = caller.start(flows["Detecting"], pii_policy_override=TIGHTER[what])
    assert answer.status == 201, answer
    policy = answer.json()["pii_policy"]
    assert policy["mode"] == "detect"
    assert {field: _unordered(policy[field]) for field in TIGHTER[what]} == {
        field: _unordered(value) for field, value in TIGHTER[what].items()
    }
    caller.post(f"/runs/{answer.json()['run_id']}/cancel")


OFF: dict[str, dict[str, Any]] = {
    "fewer categories": {"mode": "detect", "categories": ["EMAIL_ADDRESS"]},
    "fewer stages": {"mode": "redact", "stages": ["outputs"]},
    "a higher confidence": {"mode": "detect", "min_confidence": 1},
    "fewer model calls": {"mode": "detect", "max_model_calls": 0},
    "fewer sample rows": {"mode": "redact", "parquet_sample_rows": 1},
    "no mode": {"stages": []},
    "the mode that it has": {"mode": "off", "categories": []},
}


@pytest.mark.parametrize("what", OFF)
def test_of_a_workflow_without_sweeps_only_the_mode_is_compared(
    resident: Caller, flows: dict[str, str], what: str
) -> None:
    answer = resident.start(flows["Echo"], pii_policy_override=OFF[what])
    assert answer.status == 201, answer
    policy = answer.json()["pii_policy"]
    assert {field: policy[field] for field in OFF[what]} == OFF[what]


def test_an_invalid_field_is_refused_where_the_workflow_has_no_sweeps(resident: Caller, flows: dict[str, str]) -> None:
    answer = resident.start(flows["Echo"], pii_policy_override={"mode": "detect", "stages": ["dreams"]})
    refused(answer, 400, "invalid_pii_policy", {"field": "stages"})


def _unordered(value: object) -> object:
    return set(value) if isinstance(value, list) else value
