"""Schemas of the input of agents, read from the annotations of their functions."""

from typing import Any

import pytest

from backend.resources.schemas.signatures import Signature, signature

OR_NULL = {"anyOf": [{"type": "string"}, {"type": "null"}]}


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        ("str", {"type": "string"}),
        ("int", {"type": "integer"}),
        ("float", {"type": "number"}),
        ("bool", {"type": "boolean"}),
        ("list", {"type": "array"}),
        ("dict", {"type": "object"}),
        ("list[int]", {"type": "array", "items": {"type": "integer"}}),
        ("typing.Dict[str, bool]", {"type": "object", "additionalProperties": {"type": "boolean"}}),
        ("Literal['a', 1]", {"enum": ["a", 1]}),
        ("Optional[str]", OR_NULL),
        ("'str | None'", OR_NULL),
        ("Any", {}),
    ],
)
def test_each_annotation_has_its_schema(annotation: str, schema: dict[str, Any]) -> None:
    found = signature(f"def run(context, *, value: {annotation}): pass", "run").schema
    assert found is not None
    assert (found["properties"], found["required"]) == ({"value": schema}, ["value"])


def test_defaults_and_the_docstring_are_part_of_the_schema() -> None:
    text = "async def main(context, count: int = 3, cache={}):\n    'Counts.'\n"
    assert signature(text, "main").schema == {
        "type": "object",
        "description": "Counts.",
        "properties": {"count": {"type": "integer", "default": 3}},
        "required": [],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("parameter", "schema"),
    [
        ("x: str = 5", {"type": "string"}),
        ("x: int = True", {"type": "integer"}),
        ("x: str = '\\0'", {"type": "string"}),
        ("x: str = '\\ud800'", {"type": "string"}),
        ("x: str = None", {"type": "string"}),
        ("x: int | None = None", {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}),
    ],
)
def test_a_default_is_in_the_schema_only_where_it_fits(parameter: str, schema: dict[str, Any]) -> None:
    found = signature(f"def run(context, {parameter}): pass", "run").schema
    assert found is not None
    assert (found["properties"], found["required"]) == ({"x": schema}, [])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("def run(context, a: str, /, b: int = 2): pass", "must let the parameter a of run be given by name"),
        ("@wrapped\ndef run(context, a: str): pass", "must not decorate run"),
    ],
)
def test_parameters_that_no_call_may_give_are_refused(text: str, problem: str) -> None:
    found = signature(text, "run").problem
    assert found is not None
    assert found.startswith(problem)
    assert "input_schema" in found


@pytest.mark.parametrize("text", ["def run(context): pass", "from main import run", "def run(*given): pass", "def ("])
def test_a_function_without_such_parameters_has_no_schema(text: str) -> None:
    assert signature(text, "run") == Signature()


@pytest.mark.parametrize(
    "parameter",
    ["order", "order: Order", "order: dict[int, str]", "order: 'x('", "order: print('run')", "order: a.b.C"],
)
def test_an_unknown_annotation_names_the_parameter_and_what_is_allowed(parameter: str) -> None:
    problem = signature(f"def run(context, {parameter}): pass", "run").problem
    assert problem is not None
    assert "parameter order of run with str, int" in problem
    assert "input_schema" in problem


def test_deeply_nested_annotations_are_bounded() -> None:
    assert signature(f"def run(context, x: {'list[' * 5000}int{']' * 5000}): pass", "run") == Signature()
