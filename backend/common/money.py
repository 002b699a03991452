"""Amounts of money: stored as whole millionths of a US dollar, written for people in dollars."""


def dollars(microusd: int) -> str:
    """Returns an amount with as many decimals as it needs, and at least two: `1,234.50`, `0.000577`."""
    whole, fraction = divmod(microusd, 1_000_000)
    return f"{whole:,}.{f'{fraction:06}'.rstrip('0').ljust(2, '0')}"
