import json
from typing import Any

import pytest

from backend.runtime.schema_check import schema_mismatch

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
    assert schema_mismatch(schema, ["x"]) is not None
    assert schema_mismatch({"$schema": "http://json-schema.org/draft-07/schema#", **schema}, ["x"]) is None
    assert schema_mismatch(True, ["x"]) is None
    assert schema_mismatch(False, ["x"]) is not None


def test_a_value_too_deep_for_a_recursive_schema_does_not_fit() -> None:
    schema = {"$defs": {"n": {"items": {"$ref": "#/$defs/n"}}}, "$ref": "#/$defs/n"}
    assert schema_mismatch(schema, json.loads("[" * 900 + "]" * 900)) is not None


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize(
    ("schema", "value", "fits"),
    [
        ({"pattern": BACKTRACKING}, LONG, False),
        ({"patternProperties": {BACKTRACKING: False}}, {LONG: 1}, True),
        ({"patternProperties": {BACKTRACKING: {}}, "additionalProperties": {"type": "null"}}, {LONG: 1}, False),
        ({"patternProperties": {BACKTRACKING: {}}, "unevaluatedProperties": {}}, {LONG: 1}, True),
        ({"properties": {"a": {"$schema": DRAFTS[1], "pattern": BACKTRACKING}}}, {"a": LONG}, False),
    ],
)
def test_no_pattern_of_a_schema_takes_more_than_linear_time(draft: str, schema: Any, value: Any, fits: bool) -> None:
    assert (schema_mismatch({"$schema": draft, **schema}, value) is None) == fits


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"$defs": {"n": {}}, "items": {"$id": "https://example.org/n", "$ref": "#/$defs/n"}}, [1]),
        ({"multipleOf": 0.5}, 10**400),
    ],
    ids=["a reference", "a number"],
)
def test_a_schema_that_cannot_judge_a_value_is_told_as_a_mismatch(schema: Any, value: Any) -> None:
    told = schema_mismatch(schema, value)
    assert told is not None
    assert told.startswith("The result cannot be judged by the schema: ")


def test_a_pattern_that_cannot_be_read_judges_nothing() -> None:
    told = schema_mismatch({"pattern": "(?=a)b"}, "ab")
    assert told is not None
    assert told.startswith("The result cannot be judged by the schema: ")
    assert schema_mismatch({"pattern": "b"}, "\ud800") is not None
