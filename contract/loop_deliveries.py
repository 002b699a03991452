"""Hands what ends on threads to an event loop; what ends close together wakes the loop once."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class LoopDeliveries(Generic[T]):
    """Calls a function on one event loop, with what any thread adds, in order."""

    def __init__(self, deliver: Callable[[T], None]) -> None:
        self._deliver = deliver
        self._added: deque[T] = deque()
        self._woken = False

    def add(self, loop: asyncio.AbstractEventLoop, item: T) -> bool:
        """Adds an item; False where the loop has ended, so that nobody waits any more."""
        self._added.append(item)
        if not self._woken:
            self._woken = True
            try:
                loop.call_soon_threadsafe(self._deliver_all)
            except RuntimeError:
                return False
        return True

    def _deliver_all(self) -> None:
        # First, so that what is added from now on wakes the loop again.
        self._woken = False
        while self._added:
            self._deliver(self._added.popleft())
