"""Texts of a median with its spread, by which figures of one table can be told from noise."""

import statistics
from collections.abc import Sequence


def median_of(values: Sequence[float], digits: int) -> str:
    """Returns `median (lowest to highest)`, each with as many digits after the point."""
    median, lowest, highest = (f"{each:,.{digits}f}" for each in (statistics.median(values), min(values), max(values)))
    return f"{median} ({lowest} to {highest})"
