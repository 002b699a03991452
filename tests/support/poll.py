"""Waiting for a state without sleeping through it."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(probe: Callable[[], T], what: str, *, seconds: float = 60, every: float = 0.02) -> T:
    """The first truthy value of `probe`; fails with its last value when the deadline passes."""
    deadline = time.monotonic() + seconds
    while not (value := probe()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come within {seconds} s; last seen: {value!r}")
        time.sleep(every)
    return value


def within_one_minute(attempt: Callable[[], T]) -> T:
    """The value of an attempt that began and ended in the same UTC minute: rate limits count by it."""
    while True:
        minute = time.time() // 60
        value = attempt()
        if time.time() // 60 == minute:
            return value
