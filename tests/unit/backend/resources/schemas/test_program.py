import json
from typing import Any

import pytest

from backend.resources.schemas.program import mismatch


def fits_not(schema: Any, value: Any) -> str | None:
    return mismatch(schema, value, "result")


BACKTRACKING = "^(a+)+$"
LONG = "a" * 50_000 + "!"
DRAFTS = (
    "http://json-schema.org/draft-04/schema#",
    "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
)


def test_draft_2020_12_holds_where_a_schema_names_no_other() -> None:
    schema = {"prefixItems": [{"type": "integer"}]}
    assert fits_not(schema, ["x"]) is not None
    assert fits_not({"$schema": "http://json-schema.org/draft-07/schema#", **schema}, ["x"]) is None
    assert fits_not(True, ["x"]) is None
    assert fits_not(False, ["x"]) is not None


def test_a_deep_value_is_judged_by_a_recursive_schema() -> None:
    schema = {"$defs": {"n": {"items": {"$ref": "#/$defs/n"}, "type": "array"}}, "$ref": "#/$defs/n"}
    assert fits_not(schema, json.loads("[" * 900 + "]" * 900)) is None
    found = fits_not(schema, json.loads("[" * 100 + "1" + "]" * 100))
    assert found is not None
    assert found.startswith("The result does not fit its schema at $[0]")


@pytest.mark.parametrize(
    ("schema", "value", "where"),
    [
        ({"properties": {"total": {"type": "integer"}}}, {"total": "7"}, "$.total"),
        ({"properties": {"a b": {"items": {"type": "integer"}}}}, {"a b": [1, "x"]}, "$['a b'][1]"),
        ({"additionalProperties": False}, {"it's": 1}, "$"),
        ({"additionalProperties": {"type": "null"}}, {"it's": 1}, "$['it\\'s']"),
    ],
)
def test_a_mismatch_names_its_place_as_a_json_path(schema: Any, value: Any, where: str) -> None:
    found = fits_not(schema, value)
    assert found is not None
    assert found.startswith(f"The result does not fit its schema at {where}: ")


@pytest.mark.parametrize(
    ("schema", "value", "fits"),
    [
        ({"const": 10**30}, 10**30, True),
        ({"const": 10**30}, 10**30 + 1, False),
        ({"maximum": 5}, 10**400, False),
        ({"multipleOf": 0.01}, 19.99, True),
        ({"type": "integer"}, 1.0, True),
        ({"enum": [1]}, True, False),
        ({"format": "date"}, "no date", True),
    ],
)
def test_numbers_are_exact_and_formats_are_annotations(schema: Any, value: Any, fits: bool) -> None:
    assert (fits_not(schema, value) is None) == fits


@pytest.mark.parametrize("reference", ["http://127.0.0.1:9/schema", "file:///etc/hostname", "json-schema:///other"])
def test_nothing_outside_of_a_schema_is_retrieved(reference: str) -> None:
    found = fits_not({"$ref": reference}, 1)
    assert found is not None
    assert found.startswith("The result cannot be judged by the schema: ")


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize(
    ("schema", "value", "fits"),
    [
        ({"pattern": BACKTRACKING}, LONG, False),
        ({"patternProperties": {BACKTRACKING: {"type": "null"}}}, {LONG: 1}, True),
        ({"patternProperties": {BACKTRACKING: {}}, "additionalProperties": {"type": "null"}}, {LONG: 1}, False),
        ({"patternProperties": {BACKTRACKING: {}}, "unevaluatedProperties": {}}, {LONG: 1}, True),
        ({"properties": {"a": {"$schema": DRAFTS[1], "pattern": BACKTRACKING}}}, {"a": LONG}, False),
    ],
)
def test_no_pattern_of_a_schema_takes_more_than_linear_time(draft: str, schema: Any, value: Any, fits: bool) -> None:
    assert (fits_not({"$schema": draft, **schema}, value) is None) == fits


def test_a_schema_that_is_not_complete_judges_nothing() -> None:
    found = fits_not({"$defs": {"n": {}}, "items": {"$id": "https://example.org/n", "$ref": "#/$defs/n"}}, [1])
    assert found is not None
    assert found.startswith("The result cannot be judged by the schema: ")


def test_a_pattern_that_cannot_be_read_judges_nothing() -> None:
    found = fits_not({"pattern": "(?=a)b"}, "ab")
    assert found is not None
    assert found.startswith("The result cannot be judged by the schema: ")


def test_a_lone_surrogate_fits_no_schema() -> None:
    assert fits_not({"pattern": "b"}, "\ud800") is not None
