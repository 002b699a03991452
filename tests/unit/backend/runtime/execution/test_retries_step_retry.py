import pytest

from backend.runtime.execution.retries import LONGEST_WAIT_SECONDS, wait_seconds

TYPE = "ValueError"


def test_the_wait_grows_by_the_multiplier_and_ends_with_the_last_attempt() -> None:
    retry = {"attempts": 4, "backoff_seconds": 1.5, "multiplier": 2}
    assert [wait_seconds(retry, failed, TYPE) for failed in range(1, 6)] == [1.5, 3, 6, None, None]


def test_no_wait_is_longer_than_the_longest() -> None:
    retry = {"attempts": 10, "backoff_seconds": 300, "multiplier": 10}
    assert wait_seconds(retry, 9, TYPE) == wait_seconds(retry, 1, TYPE, asked=86_400) == LONGEST_WAIT_SECONDS


def test_a_wait_is_at_least_what_was_asked_for() -> None:
    retry = {"attempts": 2, "backoff_seconds": 5, "multiplier": 1}
    assert (wait_seconds(retry, 1, TYPE, asked=7), wait_seconds(retry, 1, TYPE, asked=3)) == (7, 5)


def test_a_step_that_declares_nothing_is_tried_once() -> None:
    assert wait_seconds(None, 1, TYPE) is None


@pytest.mark.parametrize(
    ("on", "not_on", "retried"),
    [
        ([], [], True),
        (["ValueError"], [], True),
        (["TimeoutError"], [], False),
        ([], ["ValueError"], False),
        (["ValueError", "TimeLimit"], ["TimeLimit"], True),
    ],
)
def test_a_step_is_retried_after_the_types_of_failures_that_it_names(
    on: list[str], not_on: list[str], retried: bool
) -> None:
    retry = {"attempts": 2, "backoff_seconds": 5, "multiplier": 1, "on": on, "not_on": not_on}
    assert (wait_seconds(retry, 1, TYPE) == 5) == retried
