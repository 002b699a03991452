"""Polls for a state."""

import time
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

LONGEST_WAIT_SECONDS: Final = 120.0
"""How long a test waits for a state: on a slow and busy machine, too; a test has 300 seconds in all."""


def until(probe: Callable[[], T], what: str, *, seconds: float = LONGEST_WAIT_SECONDS, every: float = 0.02) -> T:
    """Returns the first truthy value of `probe`; fails with its last value when the deadline passes."""
    deadline = time.monotonic() + seconds
    while not (value := probe()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come within {seconds} s; last seen: {value!r}")
        time.sleep(every)
    return value


def wait_until(condition: Callable[[], bool]) -> None:
    """Returns once the condition holds."""
    until(condition, "the state", every=0.005)


def within_one_minute(attempt: Callable[[], T]) -> T:
    """The value of an attempt that began and ended in the same UTC minute: rate limits count by it."""
    while True:
        minute = time.time() // 60
        value = attempt()
        if time.time() // 60 == minute:
            return value
