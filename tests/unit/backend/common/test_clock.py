import pytest

from backend.common.clock import is_due, is_recent

NOW = 1_790_000_000_000


@pytest.mark.parametrize(
    ("ahead", "due"), [(-1, True), (0, True), (1, False), (500, False), (501, True), (7_200_000, True)]
)
def test_a_due_time_later_than_its_longest_delay_has_come(ahead: int, *, due: bool) -> None:
    assert is_due(NOW + ahead, NOW, 500) is due


@pytest.mark.parametrize(
    ("ahead", "recent"), [(-500, False), (-499, True), (0, True), (499, True), (500, False), (7_200_000, False)]
)
def test_a_time_in_the_future_counts_as_long_ago_unless_clocks_may_differ_by_so_much(
    ahead: int, *, recent: bool
) -> None:
    assert is_recent(NOW + ahead, NOW, 500) is recent
