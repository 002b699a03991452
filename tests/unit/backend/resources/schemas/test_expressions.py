"""Expressions are checked by the types of what they see, and give JSON values or a reason why not."""

from typing import Final

import pytest

from backend.common.json_text import JsonValue
from backend.resources.schemas.expression_scope import Expected, ExpressionError, Scope, Values
from backend.resources.schemas.expressions import evaluate, problem_of, run_evaluation

SCOPE: Final = Scope(
    parameters={"region": "string", "count": "integer", "rate": "number", "in": "string", "maybe": "integer"},
    nullable=["maybe"],
    needs=["list", "a-b", "1st"],
    item=False,
)
VALUES: Final = Values(
    parameters={"region": "EU", "count": 3, "rate": 5, "in": "q", "maybe": None},
    needs={"list": {"total": 101, "files": [1, {"a": None}]}, "a-b": None, "1st": {"v": 1.5}},
    run={
        "run_id": "run_1",
        "created_at": "2026-09-24T00:00:00.000Z",
        "triggered_by": "api_key",
        "client_reference": None,
        "labels": {"team": "a"},
        "version": 3,
    },
    item=None,
    item_index=0,
)


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("needs.list.total > 100 && parameters.region == 'EU'", True),
        ("needs.list.total > 100.5", True),
        ('needs["a-b"] == null && needs["1st"].v > 1.0', True),
        ("needs['a-b']", None),
        ("needs [ 'a-b' ] == null // needs['zz']", True),
        ("'needs[\"a-b\"]'", 'needs["a-b"]'),
        ("[needs.list.files, needs['1st']]", [[1, {"a": None}], {"v": 1.5}]),
        ('{"a": needs.list.files[0]}', {"a": 1}),
        ("parameters.rate / 2.0", 2.5),
        ('parameters["in"]', "q"),
        ("parameters.maybe == null", True),
        ("parameters.maybe == null ? 0 : parameters.maybe", 0),
        ("has(needs.list.total) && !has(needs.list.nothing)", True),
        ("needs.list.files.filter(f, f == 1)", [1]),
        ("run.labels.team + string(run.version) + run.triggered_by", "a3api_key"),
        ("run.client_reference == null", True),
        ("string(timestamp(run.created_at))", "2026-09-24T00:00:00Z"),
    ],
)
def test_an_expression_gives_a_value_of_json(source: str, value: JsonValue) -> None:
    assert problem_of(source, Expected.VALUE, SCOPE) is None
    assert evaluate(source, Expected.VALUE, SCOPE, VALUES) == value


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("parameters.region + 1", "column 19: found no matching overload for '_+_' applied to '(string, int)'"),
        ("parameters.regoin == ''", "column 11: there is no parameter 'regoin': region, count, rate, in, maybe"),
        ("needs.lst.total", "column 10: the step does not need 'lst': list, a-b, 1st"),
        ('needs["zz"]', "column 6: the step does not need 'zz': list, a-b, 1st"),
        ("needs", "column 1: must be needs.STEP, of these: list, a-b, 1st"),
        ("true &&\n needs.zz", "line 2, column 7: the step does not need 'zz': list, a-b, 1st"),
        (
            "run.id",
            "column 4: a run has no 'id': run_id, created_at, triggered_by, client_reference, labels, version",
        ),
        ("item", "column 1: there is no 'item': expressions see parameters, needs and run"),
        ("1 +", "column 4: Syntax error: mismatched input '<EOF>'"),
    ],
)
def test_a_mistake_is_told_with_its_line_and_column(source: str, problem: str) -> None:
    assert problem_of(source, Expected.VALUE, SCOPE) == f"must be a CEL expression: {problem}"
    with pytest.raises(ExpressionError):
        evaluate(source, Expected.VALUE, SCOPE, VALUES)


@pytest.mark.parametrize(
    ("source", "expected", "problem"),
    [
        ("1", Expected.CONDITION, "must give true or false, and gives a number"),
        ("[true]", Expected.CONDITION, "must give true or false, and gives a list"),
        ("{'a': 1}", Expected.LIST, "must give a list, and gives an object"),
        ("x" * 2_001, Expected.VALUE, "must have at most 2,000 characters"),
    ],
)
def test_an_expression_that_cannot_give_its_kind_of_value_is_refused(
    source: str, expected: Expected, problem: str
) -> None:
    assert problem_of(source, expected, SCOPE) == problem


@pytest.mark.parametrize(
    ("source", "expected", "reason"),
    [
        ("needs.list.nothing", Expected.VALUE, 'failed: Key not found in map : "nothing"'),
        ("1 / 0", Expected.VALUE, "failed: divide by zero"),
        (
            "needs.list.files[1].a > 2",
            Expected.CONDITION,
            "failed: No matching overloads found : _>_(null_type, int64)",
        ),
        ("needs.list", Expected.CONDITION, "gave an object where true or false is expected"),
        ("needs.list", Expected.LIST, "gave an object where a list is expected"),
        ("timestamp(run.created_at)", Expected.VALUE, "gave a value that is no JSON (datetime): use string(x)"),
        ("0.0 / 0.0", Expected.VALUE, "gave a value that is no JSON (float): use string(x)"),
        ("{1: 2}", Expected.VALUE, "gave a value that is no JSON (dict): use string(x)"),
    ],
)
def test_a_value_that_cannot_be_used_is_an_error_that_says_why(source: str, expected: Expected, reason: str) -> None:
    assert problem_of(source, expected, SCOPE) is None
    with pytest.raises(ExpressionError) as caught:
        evaluate(source, expected, SCOPE, VALUES)
    assert str(caught.value) == reason


def test_items_of_a_fan_out_are_seen_in_its_scope_alone() -> None:
    scope, values = Scope(**{**SCOPE, "item": True}), Values(**{**VALUES, "item": {"n": 7}, "item_index": 2})
    assert evaluate("item.n + item_index", Expected.VALUE, scope, values) == 9


def test_integers_beyond_64_bits_are_doubles() -> None:
    arguments = {
        "expressions": [("needs.list.n > 1.0 && parameters.count > 1.0", "condition"), ("needs.list.m", "value")],
        "scope": {**SCOPE, "nullable": [*SCOPE["parameters"]]},
        "values": {**VALUES, "parameters": {**VALUES["parameters"], "count": 10**20}},
        "needs": {"list": '{"n": 100000000000000000000, "m": 9223372036854775807}'},
    }
    assert run_evaluation(arguments, []) == [True, 2**63 - 1]
