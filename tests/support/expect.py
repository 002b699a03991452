"""Assertions on answers that many rules share."""

import re
from typing import Any

from tests.support.wire import Answer

TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d")
_PLAIN = object()


def refused(answer: Answer, status: int, code: str, details: object = _PLAIN) -> dict[str, Any]:
    """Asserts a refusal in the envelope, without `details` unless they are given; returns the error."""
    assert (answer.status, answer.code) == (status, code), answer
    error = answer.error
    if details is _PLAIN:
        assert "details" not in error, answer
    else:
        assert error["details"] == details, answer
    return error


def invalid(answer: Answer, *names: str, code: str = "invalid_request") -> list[str]:
    """Asserts a 400 whose problems bear exactly these names, in any order; returns their reasons by sorted name."""
    assert (answer.status, answer.code) == (400, code), answer
    problems = answer.error["details"]
    assert all(set(problem) == {"name", "reason"} and problem["reason"] for problem in problems), answer
    problems.sort(key=lambda problem: problem["name"])
    assert [problem["name"] for problem in problems] == sorted(names), answer
    return [problem["reason"] for problem in problems]


def is_timestamp(value: object) -> bool:
    return isinstance(value, str) and TIMESTAMP.fullmatch(value) is not None
