"""The clock of the edge."""

from time import time


def system_clock() -> int:
    """Returns the time in milliseconds since the epoch, UTC."""
    return int(time() * 1000)
