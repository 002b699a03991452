"""Shares out the places in which steps run, and the memory for them, fairly between keys."""

import asyncio
from collections import Counter, deque
from typing import Final, NamedTuple

# A segment holds no slot while it records what a step left, so more segments than slots keep the slots busy.
SEGMENTS_PER_SLOT: Final = 2


class _Asked(NamedTuple):
    key: str
    memory_mb: int
    slot: "asyncio.Future[None]"


class StepSlots:
    """A fixed number of slots, and megabytes of memory that all who hold one may use together.

    A free slot goes to the key that holds the fewest, among equals to who waits longest. Whose turn it is keeps the
    turn until there is memory enough: what asks for little never overtakes what asks for much.

    Used on the engine's loop only.
    """

    def __init__(self, count: int, memory_mb: int) -> None:
        self.count = count
        self.memory_mb = memory_mb
        self._free = count
        self._free_mb = memory_mb
        self._held: Counter[str] = Counter()
        self._waiting: dict[str, deque[_Asked]] = {}
        self._turn: _Asked | None = None

    @property
    def in_use(self) -> int:
        """How many are held; from any thread."""
        return self.count - self._free

    def ask(self, key: str, memory_mb: int) -> asyncio.Future[None]:
        """A future that is done once the caller holds a slot; one that is done must be released, another cancelled.

        `memory_mb` is at most the memory of all.
        """
        slot: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, deque()).append(_Asked(key, memory_mb, slot))
        # Others may wait behind one that is given up.
        slot.add_done_callback(lambda _: self._grant())
        self._grant()
        return slot

    def release(self, key: str, memory_mb: int) -> None:
        """Gives a slot back, with the memory that was asked for."""
        self._held[key] -= 1
        if not self._held[key]:
            del self._held[key]
        self._free += 1
        self._free_mb += memory_mb
        self._grant()

    def _grant(self) -> None:
        while self._free and (asked := self._whose_turn()) is not None and asked.memory_mb <= self._free_mb:
            self._turn = None
            asked.slot.set_result(None)
            self._held[asked.key] += 1
            self._free -= 1
            self._free_mb -= asked.memory_mb

    def _whose_turn(self) -> _Asked | None:
        while (self._turn is None or self._turn.slot.done()) and self._waiting:
            key = min(self._waiting, key=self._held.__getitem__)
            waiting = self._waiting.pop(key)
            self._turn = waiting.popleft()
            if waiting:
                # Behind the other keys that hold as many.
                self._waiting[key] = waiting
        return None if self._turn is None or self._turn.slot.done() else self._turn
