"""Validation within limits: it ends at the limits, and reports that. (contract 25.9)"""

import errno
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from backend.common.deployment_terms import CheckBounds
from backend.isolation.confined import ConfinedError, FailureKind
from backend.resources.schemas.content_checks import BEYOND_BOUNDS, CodeProblem, code_problem
from backend.resources.schemas.validator import SchemaValidator, ValidatorUnavailableError
from tests.support.poll import until
from tests.support.slow_schemas import SLOW_SCHEMA, SLOW_VALUE

BOUNDS = CheckBounds(cpu_seconds=0.2, memory_mb=192)
BEYOND = "The result could not be judged by its schema within 0.2 seconds of processor time and 192 MB of memory."


@pytest.fixture(name="judge", scope="module")
def _judge() -> Iterator[SchemaValidator]:
    judge = SchemaValidator()
    yield judge
    judge.close()


@pytest.fixture(name="limited", scope="module")
def _limited() -> Iterator[SchemaValidator]:
    judge = SchemaValidator(BOUNDS)
    yield judge
    judge.close()


def nested(levels: int, name: str | None = None) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value] if name is None else {name: value}
    return value


SAME = {"type": "array", "items": {"$ref": "#"}}
WITHIN = [
    ({"uniqueItems": True}, [{"number": number} for number in range(3_000)]),
    ({"allOf": [{"minLength": number} for number in range(2_000)]}, "x" * 2_000),
    ({"pattern": "^(a+)+$"}, "a" * 50_000),
    ({"enum": list(range(5_000))}, 4_999),
    (
        {"$dynamicAnchor": "n", "properties": {"a": {"$dynamicRef": "#n"}}, "unevaluatedProperties": False},
        nested(60, "a"),
    ),
    ({"properties": {"a": {"$ref": "#"}}, "dependentSchemas": {"a": {"required": ["a"]}}}, nested(60, "a")),
    (
        {"anyOf": [{"properties": {"a": {"$ref": "#"}}, "required": ["a"]}] * 2, "unevaluatedProperties": False},
        nested(60, "a"),
    ),
]
BEYOND_THEM = [
    ({"anyOf": [SAME, SAME, {"type": "string"}]}, nested(60)),
    ({"oneOf": [{"properties": {"a": {"$ref": "#"}}}, {"additionalProperties": {"$ref": "#"}}]}, nested(60, "a")),
    (
        {"$dynamicAnchor": "n", "anyOf": [{"items": {"$dynamicRef": "#n"}, "type": "array"}] * 2},
        nested(60),
    ),
    (
        {"dependentSchemas": {"a": {"properties": {"a": {"$ref": "#"}}}}, "properties": {"a": {"$ref": "#"}}},
        nested(60, "a"),
    ),
    (SLOW_SCHEMA, SLOW_VALUE),
]


def judged(judge: SchemaValidator, schema: Any, value: Any, **given: Any) -> str | None:
    return judge.mismatch(schema, json.dumps(value), "result", owner="key", **given)


@pytest.mark.parametrize(("schema", "value"), WITHIN)
def test_what_is_large_but_linear_is_judged(judge: SchemaValidator, schema: Any, value: Any) -> None:
    assert judged(judge, schema, value) is None


@pytest.mark.parametrize(("schema", "value"), BEYOND_THEM)
def test_what_cannot_be_judged_within_the_bounds_is_said_so(limited: SchemaValidator, schema: Any, value: Any) -> None:
    assert judged(limited, schema, value) == BEYOND


def test_a_value_that_needs_too_much_memory_is_not_judged() -> None:
    bounds = CheckBounds(cpu_seconds=3_600, memory_mb=16)
    judge = SchemaValidator(bounds)
    problem = judge.mismatch({"uniqueItems": True}, "[" + ",".join(["[]"] * 500_000) + "]", "result", owner="key")
    assert problem == f"The result could not be judged by its schema within {bounds}."
    assert judged(judge, {"type": "integer"}, 1) is None
    judge.close()


def test_that_no_process_could_be_started_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(*_: Any) -> Any:
        raise BlockingIOError(errno.EAGAIN, "no room")

    judge = SchemaValidator()
    with monkeypatch.context() as fault:
        fault.setattr("backend.isolation.confined.pool.start_process", no_room)
        with pytest.raises(ValidatorUnavailableError):
            judged(judge, {}, 1)
        with pytest.raises(ValidatorUnavailableError):
            judge.schema_problem({}, answer=False)
    assert judged(judge, {}, 1) is None
    judge.close()


def test_a_schema_that_cannot_be_checked_within_the_bounds_is_refused(limited: SchemaValidator) -> None:
    judge = limited
    slow = {"allOf": [{"pattern": f"(a{{500}}){{{400 + number}}}"} for number in range(800)]}
    problem = judge.schema_problem(slow, answer=False)
    assert problem == f"must be a JSON Schema that can be checked within {BOUNDS}"
    deep: Any = {}
    for _ in range(5_000):
        deep = {"a": deep}
    assert judge.schema_problem(deep, answer=False) is not None
    assert judge.schema_problem({"type": "object"}, answer=True) is None


def test_the_schemas_of_one_call_are_bounded_together() -> None:
    judge = SchemaValidator(CheckBounds(cpu_seconds=0.25, memory_mb=192))
    slow = {"allOf": [{"pattern": f"(a{{500}}){{{400 + number}}}"} for number in range(800)]}
    try:
        checks = judge.manifest_checks()
        problems = [checks.schema_problem(slow, answer=False) for _ in range(20)]
        fresh = judge.manifest_checks().schema_problem({"type": "object"}, answer=False)
    finally:
        judge.close()
    beyond = sum("that can be checked within" in str(problem) for problem in problems)
    assert 1 <= beyond <= 4
    unchecked = "was not checked: the schemas before it took longer than the 1 seconds that all may take together"
    assert problems[beyond:] == [unchecked] * (20 - beyond)
    assert fresh is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("x = 1\n", None),
        (b"# coding: latin-1\nrun = '\xfc'\n", None),
        ("x = 1\ny = (\n", CodeProblem(2, "must be Python: '(' was never closed")),
        (b"x =", CodeProblem(1, "must be Python: invalid syntax")),
        ("-" * 100_000 + "1", BEYOND_BOUNDS),
        ("+".join("1" * 5_000), BEYOND_BOUNDS),
        ("\ud800", CodeProblem(None, "must be Python that compiles")),
    ],
)
def test_the_problem_of_code_is_told_as_without_a_process(
    judge: SchemaValidator, text: str | bytes, problem: CodeProblem | None
) -> None:
    assert judge.code_problem(text) == code_problem(text) == problem


def test_code_that_cannot_be_compiled_within_the_bounds_is_refused_and_the_next_is_judged() -> None:
    judge = SchemaValidator()
    try:
        within = judge.code_problem("x=1\n" * 2**18)
        beyond = judge.code_problem("x=1\n" * 2**20)
        assert judge.code_problem("run = 1", defines="run") is None
    finally:
        judge.close()
    assert within is None
    assert beyond == BEYOND_BOUNDS
    assert "within 5 seconds of processor time and 512 MB of memory" in beyond.reason


def test_a_judgement_ends_with_its_halt_and_with_the_judge() -> None:
    judge = SchemaValidator(CheckBounds(cpu_seconds=3_600))
    kinds: list[FailureKind] = []
    halt = threading.Event()

    def run(halt: threading.Event | None) -> None:
        try:
            judged(judge, SLOW_SCHEMA, SLOW_VALUE, halt=halt)
        except ConfinedError as error:
            kinds.append(error.kind)

    threads = [threading.Thread(target=run, args=(given,)) for given in (halt, None)]
    for thread in threads:
        thread.start()
    until(lambda: judge.pids, "a process")
    halt.set()
    threads[0].join(60)
    assert kinds == [FailureKind.HALTED]
    judge.close()
    threads[1].join(60)
    assert kinds == [FailureKind.HALTED, FailureKind.CLOSED]
    assert judge.pids == []


def test_one_keys_judgements_do_not_hold_up_anothers() -> None:
    judge = SchemaValidator(CheckBounds(cpu_seconds=3_600))
    halt = threading.Event()

    def hostile() -> None:
        with pytest.raises(ConfinedError):
            judged(judge, SLOW_SCHEMA, SLOW_VALUE, halt=halt)

    threads = [threading.Thread(target=hostile) for _ in range(18)]
    for thread in threads:
        thread.start()
    assert judge.mismatch({"type": "integer"}, "1", "result", owner="another") is None
    assert all(thread.is_alive() for thread in threads)
    halt.set()
    for thread in threads:
        thread.join(60)
    judge.close()
