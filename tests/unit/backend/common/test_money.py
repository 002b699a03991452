"""Amounts of money in words."""

import pytest

from backend.common.money import dollars


@pytest.mark.parametrize(
    ("microusd", "text"),
    [(0, "0.00"), (500, "0.0005"), (1_500_000, "1.50"), (1_234_000_001, "1,234.000001")],
)
def test_an_amount_has_the_decimals_that_it_needs(microusd: int, text: str) -> None:
    assert dollars(microusd) == text
