from typing import Any

import pytest

from backend.resources.schemas.program import schema_problem


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"pattern": "(?=a)b"}, "must be a JSON Schema: pattern: must be a regular expression of moderate size"),
        ({"pattern": "((a{100}){100}){1000}"}, "must be a JSON Schema: pattern: must be a regular expression"),
        ({"properties": {"a": {"type": 3}}}, "must be a JSON Schema: properties/a/type: "),
        ({"$schema": "https://example.com/own"}, "must be a JSON Schema: $schema: must name Draft 4, 6, 7, 2019-09"),
        ({"$ref": "https://example.com/other"}, "must refer to nothing outside of itself"),
        ({"examples": [{"$ref": "#/$defs/none"}]}, "must hold what it refers to: #/$defs/none"),
    ],
)
def test_a_problem_says_where_it_is_and_what_is_allowed(schema: Any, problem: str) -> None:
    found = schema_problem(schema)
    assert found is not None
    assert found.startswith(problem)


def test_an_answers_schema_is_an_object_that_never_recurs() -> None:
    recurring = {"type": "object", "$defs": {"n": {"items": {"$ref": "#/$defs/n"}}}}
    assert schema_problem(recurring) is None
    assert schema_problem(recurring, answer=True) == "must not recur: #/$defs/n"
    assert schema_problem({"type": "array"}, answer=True) == "must be a JSON Schema of type object"
