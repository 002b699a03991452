"""Fair distribution of slots between owners, for threads that wait."""

import threading
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from backend.isolation.confined.frames import ConfinedError, FailureKind

_POLL_SECONDS: Final = 0.1


class FairSlots:
    """Semaphore of `count` slots; a free one goes to the owner with the fewest slots, among equals round robin.

    Owners without a slot share `reserve` further ones, so that the long jobs of one owner delay no other.
    """

    def __init__(self, count: int, reserve: int) -> None:
        self._count = count
        self._reserve = reserve
        self._lock = threading.Lock()
        self._held: Counter[str] = Counter()
        self._waiting: dict[str, deque[threading.Event]] = {}
        self._closed = False

    @contextmanager
    def slot(self, owner: str, halt: threading.Event | None) -> Iterator[None]:
        """Holds a slot.

        Raises:
            ConfinedError: `halt` was set, or the slots were closed, before one was free.
        """
        self._take(owner, halt)
        try:
            yield
        finally:
            with self._lock:
                self._release(owner)

    def close(self) -> None:
        """Raises in every thread that waits for a slot, and for all later requests."""
        with self._lock:
            self._closed = True
            for waiting in self._waiting.values():
                for granted in waiting:
                    granted.set()
            self._waiting.clear()

    def _take(self, owner: str, halt: threading.Event | None) -> None:
        granted = threading.Event()
        with self._lock:
            if not self._closed:
                self._waiting.setdefault(owner, deque()).append(granted)
                self._grant()
        while not self._closed and not granted.wait(_POLL_SECONDS):
            if halt is not None and halt.is_set():
                self._give_up(owner, granted)
                raise ConfinedError(FailureKind.HALTED, "it was ended")
        if self._closed:
            raise ConfinedError(FailureKind.CLOSED, "the service ends")

    def _give_up(self, owner: str, granted: threading.Event) -> None:
        with self._lock:
            if granted.is_set():
                self._release(owner)
            elif owner in self._waiting:
                self._waiting[owner].remove(granted)
                if not self._waiting[owner]:
                    del self._waiting[owner]

    def _release(self, owner: str) -> None:
        self._held[owner] -= 1
        if not self._held[owner]:
            del self._held[owner]
        self._grant()

    def _grant(self) -> None:
        while self._waiting:
            owner = min(self._waiting, key=lambda one: self._held[one])
            in_use = self._held.total()
            if in_use >= self._count + (0 if self._held[owner] else self._reserve):
                return
            waiting = self._waiting.pop(owner)
            waiting.popleft().set()
            self._held[owner] += 1
            if waiting:
                # To the end of the line of owners with as many slots.
                self._waiting[owner] = waiting
