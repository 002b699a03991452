from types import SimpleNamespace
from typing import Any

import pytest

from backend.users import rules

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
    assert rules.session_lasts(given, NOW) is lasts


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, (1, 0)),
        (1, (2, 0)),
        (8, (9, 0)),
        (9, (10, NOW + MINUTE)),
        (10, (1, 0)),
    ],
)
def test_the_tenth_try_in_a_row_is_the_last_for_a_minute(before: int | None, after: tuple[int, int]) -> None:
    row = None if before is None else SimpleNamespace(tries=before)
    assert rules.next_try(row, NOW) == after


@pytest.mark.parametrize(("left", "seconds"), [(-1, 0), (0, 0), (1, 1), (1000, 1), (1001, 2), (MINUTE, 60)])
def test_a_wait_is_told_in_seconds_rounded_up(left: int, seconds: int) -> None:
    assert rules.seconds_to_wait(NOW + left, NOW) == seconds


def test_a_token_has_256_bits_and_is_another_each_time() -> None:
    made = {rules.new_token() for _ in range(50)}
    assert len(made) == 50
    assert {len(token) for token in made} == {43}
