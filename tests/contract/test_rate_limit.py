"""Requests per minute. (contract 22.1; the minute's edge itself is held with an injected clock in tests/unit/edge)"""

import re
import time

from tests.contract.conftest import NewCaller
from tests.support.admin import SCOPES
from tests.support.client import Caller
from tests.support.expect import refused
from tests.support.poll import within_one_minute
from tests.support.routes import KEYED
from tests.support.service import Service
from tests.support.wire import Answer


def fill(caller: Caller) -> Answer:
    """Calls until the limit is full."""
    for _ in range(20):
        answer = caller.get("/me")
        if answer.status == 429:
            return answer
    raise AssertionError("the limit was never full")


def test_exactly_the_limit_is_admitted_in_a_minute(new_caller: NewCaller) -> None:
    def attempt() -> list[int]:
        # Becoming known to the edge took the first call.
        caller = new_caller(rate_limit_rpm=5)
        return [caller.get("/me").status for _ in range(7)]

    assert within_one_minute(attempt) == [200] * 4 + [429] * 3


def test_a_rate_limit_refusal_names_the_seconds_to_the_next_minute(new_caller: NewCaller) -> None:
    def attempt() -> tuple[Answer, float, float]:
        caller = new_caller(rate_limit_rpm=2)
        before = time.time()
        answer = fill(caller)
        return answer, 60 - before % 60, 60 - time.time() % 60

    answer, most, least = within_one_minute(attempt)
    error = refused(answer, 429, "rate_limited")
    seconds = int(answer.headers["Retry-After"])
    assert least - 1 <= seconds <= most + 1
    assert 1 <= seconds <= 60
    figures = [int(figure) for figure in re.findall(r"\d+", error["message"])]
    assert 2 in figures
    assert seconds in figures


def test_a_call_refused_for_its_scope_counts_against_the_limit(new_caller: NewCaller) -> None:
    def attempt() -> list[tuple[int, str | None]]:
        caller = new_caller(rate_limit_rpm=3, scopes=[scope for scope in SCOPES if scope != "runs:read"])
        return [(answer.status, answer.code) for answer in (caller.get("/runs") for _ in range(3))]

    assert within_one_minute(attempt) == [(403, "forbidden"), (403, "forbidden"), (429, "rate_limited")]


def test_every_route_is_refused_when_the_limit_is_full(new_caller: NewCaller) -> None:
    def attempt() -> set[str | None]:
        caller = new_caller(rate_limit_rpm=1)
        fill(caller)
        return {caller.call(route.method, route.path()).code for route in KEYED}

    assert within_one_minute(attempt) == {"rate_limited"}


def test_calls_answered_without_a_key_are_not_counted(new_caller: NewCaller, service: Service) -> None:
    def attempt() -> int:
        caller = new_caller(rate_limit_rpm=2)
        for _ in range(3):
            assert caller.get("/health").status == 200
            assert caller.get("/nowhere").status == 404
            assert caller.call("PUT", "/me").status == 405
            assert caller.call("OPTIONS", "/me", headers={"Origin": "https://a.test"}).status == 204
            assert caller.call("POST", "/runs/x/cancel", body=b"{").status == 400
            assert service.call("GET", "/me", {**caller.credentials, "Authorization": "Bearer x"}).status == 401
        return caller.get("/me").status

    assert within_one_minute(attempt) == 200


def test_a_call_refused_for_its_request_or_its_run_is_counted(new_caller: NewCaller) -> None:
    def attempt() -> list[int]:
        caller = new_caller(rate_limit_rpm=3)
        return [caller.get("/runs", limit=0).status, caller.get("/runs/none").status, caller.get("/me").status]

    assert within_one_minute(attempt) == [400, 404, 429]


def test_each_key_has_its_own_limit(new_caller: NewCaller) -> None:
    def attempt() -> int:
        full, fresh = new_caller(rate_limit_rpm=1), new_caller(rate_limit_rpm=2)
        fill(full)
        return fresh.get("/me").status

    assert within_one_minute(attempt) == 200


def test_polling_is_bounded_by_the_rate_limit_alone(resident: Caller, echo_run: dict[str, str]) -> None:
    """At most one read every five seconds is advice to callers and never enforced."""
    assert {resident.get(f"/runs/{echo_run['run_id']}").status for _ in range(5)} == {200}


def test_every_answer_to_a_valid_key_tells_what_is_left_of_the_minute(new_caller: NewCaller) -> None:
    def attempt() -> list[tuple[int, str, str]]:
        caller = new_caller(rate_limit_rpm=5, scopes=[scope for scope in SCOPES if scope != "runs:read"])
        answers = [caller.get(path) for path in ("/me", "/workflows?limit=0", "/runs", "/workflows/none", "/me")]
        assert all(1 <= int(answer.headers["RateLimit-Reset"]) <= 60 for answer in answers)
        return [
            (answer.status, answer.headers["RateLimit-Limit"], answer.headers["RateLimit-Remaining"])
            for answer in answers
        ]

    # Becoming known to the edge took the first call.
    assert within_one_minute(attempt) == [
        (200, "5", "3"),
        (400, "5", "2"),
        (403, "5", "1"),
        (404, "5", "0"),
        (429, "5", "0"),
    ]


def test_a_call_refused_for_its_address_tells_the_limit_and_does_not_count(new_caller: NewCaller) -> None:
    def attempt() -> list[tuple[int, str]]:
        caller = new_caller(rate_limit_rpm=5, source_allow_list=["192.0.2.0/24"])
        return [
            (answer.status, answer.headers["RateLimit-Remaining"]) for answer in (caller.get("/me"), caller.get("/me"))
        ]

    assert within_one_minute(attempt) == [(403, "5"), (403, "5")]


def test_answers_without_a_valid_key_tell_of_no_limit(service: Service) -> None:
    for answer in (service.call("GET", "/health"), service.call("GET", "/me", {"Authorization": "Bearer x"})):
        assert "RateLimit-Limit" not in answer.headers
