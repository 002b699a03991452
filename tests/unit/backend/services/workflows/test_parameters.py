"""Run inputs against their declarations (contract 11.13, 12.23)."""

from typing import Any

import pytest

from backend.common.errors import ApiError
from backend.services.workflows.parameters import effective_parameters
from workflow_api.v1 import errors_pb2

S3 = {"name": "p", "type": "s3_prefix", "bucket": "docs", "prefixes": ["in/", "more/"]}


def declared(**fields: Any) -> dict[str, Any]:
    return {"name": "p", "type": "string"} | fields


def problems(declarations: list[dict[str, Any]], given: dict[str, Any]) -> list[tuple[str, str]]:
    with pytest.raises(ApiError) as refused:
        effective_parameters(declarations, given)
    assert refused.value.reason == errors_pb2.ERROR_REASON_INVALID_PARAMETERS
    return list(refused.value.problems)


@pytest.mark.parametrize(
    ("declaration", "value"),
    [
        (declared(), ""),
        (declared(min_length=2, max_length=2), "éé"),
        (declared(pattern="[a-z]+"), "abc"),
        (declared(enum=["en", "fr"]), "fr"),
        (declared(type="integer", minimum=1, maximum=3), 3),
        (declared(type="number"), 1),
        (declared(type="number", enum=[0.5, 1]), 1.0),
        (declared(type="boolean"), False),
        (declared(type="date", minimum="2026-01-01"), "2028-02-29"),
        (declared(type="json"), [1, {"a": None}]),
        (declared(type="json"), False),
        (declared(type="json"), None),
        (declared(type="json", required=True), None),
        (declared(type="json", default={"a": 1}), None),
        (S3, "s3://docs/in/"),
        (S3, "s3://docs/more/2026/"),
        (S3 | {"prefixes": []}, "s3://docs/"),
    ],
)
def test_a_value_that_fits_is_kept_as_given(declaration: dict[str, Any], value: Any) -> None:
    assert effective_parameters([declaration], {"p": value}) == {"p": value}


@pytest.mark.parametrize(
    ("declaration", "value", "reason"),
    [
        (declared(), 1, "must be a string"),
        (declared(min_length=2), "é", "must have at least 2 characters"),
        (declared(max_length=2), "ééé", "must have at most 2 characters"),
        (declared(pattern="[a-z]+"), "abc1", "must match the pattern [a-z]+"),
        (declared(pattern="a"), "a\n", "must match the pattern a"),
        (declared(enum=["en", "fr"]), "de", "must be one of: en, fr"),
        (declared(type="integer"), True, "must be an integer"),
        (declared(type="integer"), 1.0, "must be an integer"),
        (declared(type="integer"), "1", "must be an integer"),
        (declared(type="integer", minimum=1), 0, "must be at least 1"),
        (declared(type="number", maximum=1.5), 1.6, "must be at most 1.5"),
        (declared(type="number"), False, "must be a number"),
        (declared(type="boolean"), 1, "must be true or false"),
        (declared(type="date"), "2026-02-29", "must be a date of the form 2026-09-24"),
        (declared(type="date"), "20260228", "must be a date of the form 2026-09-24"),
        (declared(type="date"), "2026-W01-1", "must be a date of the form 2026-09-24"),
        (declared(type="date", maximum="2026-01-01"), "2026-01-02", "must be at most 2026-01-01"),
        (S3, 1, "must be of the form s3://bucket/prefix/"),
        (S3, "s3://docs/in", "must be of the form s3://bucket/prefix/"),
        (S3, "https://docs/in/", "must be of the form s3://bucket/prefix/"),
        (S3, "s3://docs/in/../out/", "must not have . or .. as a part of the prefix"),
        (S3, "s3://docs/" + "é" * 600 + "/", "must have a prefix of at most 1,024 bytes"),
        (S3, "s3://docs/", "must lie inside what the workflow's connector may read"),
        (S3, "s3://docs/internal/", "must lie inside what the workflow's connector may read"),
        (S3, "s3://other/in/", "must lie inside what the workflow's connector may read"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(declaration: dict[str, Any], value: Any, reason: str) -> None:
    assert problems([declaration], {"p": value}) == [("p", reason)]


def test_every_problem_is_told_at_once_one_each() -> None:
    declarations = [
        declared(name="a", required=True),
        declared(name="b", min_length=3, pattern="[0-9]+"),
        declared(name="c", type="integer", default=1),
    ]
    assert problems(declarations, {"b": "x", "c": "x", "d": 1}) == [
        ("a", "is required"),
        ("b", "must have at least 3 characters"),
        ("b", "must match the pattern [0-9]+"),
        ("c", "must be an integer"),
        ("d", "is not a parameter of this workflow version"),
    ]


def test_defaults_stand_in_and_null_counts_as_absent() -> None:
    declarations = [declared(name="a", default="x"), declared(name="b", type="boolean", default=False), declared()]
    assert effective_parameters(declarations, {"a": None, "p": None}) == {"a": "x", "b": False}


def test_a_required_parameter_given_as_null_is_missing() -> None:
    assert problems([declared(required=True)], {"p": None}) == [("p", "is required")]


def test_a_default_outside_the_connector_is_refused_at_the_start() -> None:
    declaration = S3 | {"default": "s3://docs/elsewhere/"}
    assert problems([declaration], {}) == [("p", "must lie inside what the workflow's connector may read")]


def test_a_pattern_that_backtracks_elsewhere_takes_linear_time() -> None:
    assert problems([declared(pattern="(a|a)*b|(x+x+)+y")], {"p": "a" * 100_000})
