"""Overrides may only tighten (contract 21.1, 21.4)."""

from typing import Any

import pytest

from backend.common.errors import ApiError
from backend.services.workflows.pii_policy import FIELDS, apply_override, normalise
from workflow_api.v1 import errors_pb2

PROVIDERS = frozenset({"openai", "other"})
BASE = normalise(
    {
        "mode": "detect",
        "categories": ["PERSON", "EMAIL_ADDRESS"],
        "stages": ["outputs"],
        "min_confidence": 0.8,
        "max_model_calls": 200,
        "parquet_sample_rows": 1000,
        "phone_regions": ["ES"],
    }
)


def refused(policy: dict[str, Any], override: Any) -> tuple[str, str]:
    with pytest.raises(ApiError) as error:
        apply_override(policy, override, PROVIDERS)
    reason = errors_pb2.ErrorReason.Name(error.value.reason).removeprefix("ERROR_REASON_").lower()
    return reason, error.value.metadata["field"]


def test_a_workflow_without_a_policy_has_mode_off_and_the_defaults() -> None:
    assert normalise(None) == {
        "mode": "off",
        "categories": "all",
        "stages": ["inputs", "steps", "outputs"],
        "min_confidence": 0.8,
        "model": None,
        "max_model_calls": 200,
        "parquet_sample_rows": 50_000,
        "phone_regions": [],
    }


@pytest.mark.parametrize(
    "override",
    [
        {"mode": "detect"},
        {"mode": "redact"},
        {"categories": "all"},
        {"categories": ["EMAIL_ADDRESS", "PERSON"]},
        {"categories": ["EMAIL_ADDRESS", "PERSON", "URL"]},
        {"stages": ["outputs", "inputs"]},
        {"min_confidence": 0.8},
        {"min_confidence": 0.5},
        {"model": "openai:gpt-5"},
        {"max_model_calls": 200},
        {"max_model_calls": 100_000},
        {"parquet_sample_rows": 50_000},
        {"phone_regions": ["PL", "ES"]},
        {"mode": None},
        {},
    ],
)
def test_an_override_that_is_at_least_as_tight_is_taken(override: dict[str, Any]) -> None:
    policy = apply_override(BASE, override, PROVIDERS)
    assert policy == normalise(BASE | {name: value for name, value in override.items() if value is not None})
    assert list(policy) == list(FIELDS)


def test_no_override_leaves_the_policy() -> None:
    assert apply_override(BASE, None, PROVIDERS) == BASE


@pytest.mark.parametrize(
    ("override", "field"),
    [
        ({"mode": "off"}, "mode"),
        ({"categories": ["PERSON"]}, "categories"),
        ({"categories": []}, "categories"),
        ({"stages": ["inputs", "steps"]}, "stages"),
        ({"min_confidence": 0.85}, "min_confidence"),
        ({"max_model_calls": 199}, "max_model_calls"),
        ({"parquet_sample_rows": 999}, "parquet_sample_rows"),
        ({"phone_regions": ["PL"]}, "phone_regions"),
        ({"parquet_sample_rows": 999, "stages": [], "mode": "redact"}, "stages"),
    ],
)
def test_the_first_field_that_loosens_is_named(override: dict[str, Any], field: str) -> None:
    assert refused(BASE, override) == ("policy_not_tightening", field)


def test_a_list_of_categories_loosens_all() -> None:
    assert refused(BASE | {"categories": "all"}, {"categories": ["PERSON"]}) == ("policy_not_tightening", "categories")


def test_another_model_than_the_workflows_loosens() -> None:
    with_model = BASE | {"model": "openai:gpt-5"}
    assert refused(with_model, {"model": "other:small"}) == ("policy_not_tightening", "model")
    assert apply_override(with_model, {"model": "openai:gpt-5"}, PROVIDERS) == with_model


def test_the_local_model_can_be_named_where_it_is_installed() -> None:
    assert apply_override(BASE, {"model": "local"}, frozenset({"local"}))["model"] == "local"
    with pytest.raises(ApiError, match="'pii-model' is not installed"):
        apply_override(BASE, {"model": "local"}, PROVIDERS)


@pytest.mark.parametrize(
    ("override", "field"),
    [
        ([], "pii_policy_override"),
        ("redact", "pii_policy_override"),
        (False, "pii_policy_override"),
        ({"mode": "mask"}, "mode"),
        ({"mode": 1}, "mode"),
        ({"mode": ["redact"]}, "mode"),
        ({"categories": "some"}, "categories"),
        ({"categories": ["NOBODY"]}, "categories"),
        ({"categories": [["PERSON"]]}, "categories"),
        ({"stages": "inputs"}, "stages"),
        ({"stages": ["publish"]}, "stages"),
        ({"min_confidence": 0.49}, "min_confidence"),
        ({"min_confidence": 0.52}, "min_confidence"),
        ({"min_confidence": 1.05}, "min_confidence"),
        ({"min_confidence": "0.5"}, "min_confidence"),
        ({"min_confidence": True}, "min_confidence"),
        ({"model": ""}, "model"),
        ({"model": "gpt-5"}, "model"),
        ({"model": "openai:"}, "model"),
        ({"model": "absent:gpt-5"}, "model"),
        ({"mode": "off", "model": "absent:gpt-5", "max_model_calls": -1}, "max_model_calls"),
        ({"mode": "redact", "stages": ["inputs"], "model": "absent:gpt-5"}, "model"),
        ({"max_model_calls": 1.0}, "max_model_calls"),
        ({"max_model_calls": -1}, "max_model_calls"),
        ({"max_model_calls": 100_001}, "max_model_calls"),
        ({"parquet_sample_rows": True}, "parquet_sample_rows"),
        ({"phone_regions": "ES"}, "phone_regions"),
        ({"phone_regions": ["es"]}, "phone_regions"),
        ({"phone_regions": ["XX"]}, "phone_regions"),
        ({"colour": 1}, "colour"),
        ({"zeal": 1, "min_confidence": 2, "stages": 1}, "stages"),
        ({"mode": "off", "max_model_calls": "many"}, "max_model_calls"),
        ({"mode": "off", "colour": 1}, "colour"),
    ],
)
def test_the_first_invalid_field_is_named_before_any_that_loosens(override: Any, field: str) -> None:
    assert refused(BASE, override) == ("invalid_pii_policy", field)


def test_a_run_cannot_switch_on_a_model_that_the_deployment_cannot_call() -> None:
    asleep = BASE | {"mode": "off", "model": "absent:gpt-5"}
    assert apply_override(asleep, {}, PROVIDERS) == asleep
    assert refused(asleep, {"mode": "detect"}) == ("invalid_pii_policy", "model")


def test_a_refusal_says_where_the_entity_types_stand() -> None:
    with pytest.raises(ApiError, match=r"a list of the entity types in docs/redaction\.md, as EMAIL_ADDRESS"):
        apply_override(BASE, {"categories": ["NOBODY"]}, PROVIDERS)


@pytest.mark.parametrize("hundredths", range(50, 101, 5))
def test_confidence_goes_in_steps_of_five_hundredths(hundredths: int) -> None:
    loose = BASE | {"min_confidence": 1.0}
    assert apply_override(loose, {"min_confidence": hundredths / 100}, PROVIDERS)["min_confidence"] == hundredths / 100
