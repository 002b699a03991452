from types import SimpleNamespace
from typing import Any

import pytest

from backend.services.users import rules

NOW = 1_790_000_000_000
MINUTE, HOUR = 60_000, 3_600_000


def session(*, began: int, used: int, disabled_at: int | None = None) -> Any:
    return SimpleNamespace(created_at=NOW - began, used_at=NOW - used, disabled_at=disabled_at)


@pytest.mark.parametrize(
    ("given", "lasts"),
    [
        (session(began=0, used=0), True),
        (session(began=HOUR, used=HOUR - 1), True),
        (session(began=HOUR, used=HOUR), False),
        (session(began=12 * HOUR - 1, used=0), True),
        (session(began=12 * HOUR, used=0), False),
        (session(began=0, used=0, disabled_at=NOW), False),
    ],
)
def test_a_session_lasts_twelve_hours_and_one_without_use(given: Any, *, lasts: bool) -> None:
    assert rules.is_session_valid(given, NOW) is lasts


@pytest.mark.parametrize(("ahead", "seconds"), [(-1, 0), (0, 0), (1, 1), (MINUTE, 60), (MINUTE + 600_000, 0)])
def test_a_wait_that_a_clock_ahead_began_is_over(ahead: int, seconds: int) -> None:
    assert rules.seconds_to_wait(NOW + ahead, NOW) == seconds


LIMIT = rules.Limit(10, HOUR)


def tries(count: int, *, since: int = 0, waits_until: int = 0) -> Any:
    return SimpleNamespace(tries=count, last_at=NOW - since, waits_until=waits_until)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, (1, 0)),
        (tries(1), (2, 0)),
        (tries(8), (9, 0)),
        (tries(9), (10, NOW + MINUTE)),
        (tries(10), (1, 0)),
        (tries(9, since=HOUR - 1), (10, NOW + MINUTE)),
        (tries(9, since=HOUR), (1, 0)),
    ],
)
def test_the_last_try_that_a_limit_allows_begins_a_wait(before: Any, after: tuple[int, int]) -> None:
    assert rules.next_try(before, NOW, LIMIT) == after


@pytest.mark.parametrize(
    ("row", "left"),
    [
        (None, None),
        (tries(1), None),
        (tries(3), (2, 0)),
        (tries(10, waits_until=NOW + MINUTE), (9, 0)),
        (tries(2, waits_until=NOW + MINUTE), (1, NOW + MINUTE)),
    ],
)
def test_a_try_that_succeeded_is_withdrawn_with_the_wait_that_it_began(row: Any, left: tuple[int, int] | None) -> None:
    assert rules.try_withdrawn(row, LIMIT) == left


@pytest.mark.parametrize(("left", "seconds"), [(-1, 0), (0, 0), (1, 1), (1000, 1), (1001, 2), (MINUTE, 60)])
def test_a_wait_is_told_in_seconds_rounded_up(left: int, seconds: int) -> None:
    assert rules.seconds_to_wait(NOW + left, NOW) == seconds


def test_a_token_has_256_bits_and_is_another_each_time() -> None:
    made = {rules.new_token() for _ in range(50)}
    assert len(made) == 50
    assert {len(token) for token in made} == {43}
