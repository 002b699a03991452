"""Shares out the places in which steps run, fairly between keys."""

import asyncio
from collections import Counter, deque


class StepSlots:
    """A fixed number of slots; a free one goes to the key that holds the fewest, among equals to who waits longest.

    Used on the engine's loop only.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._free = count
        self._held: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @property
    def in_use(self) -> int:
        """How many are held; from any thread."""
        return self.count - self._free

    def ask(self, key: str) -> asyncio.Future[None]:
        """A future that is done once the caller holds a slot; one that is done must be released, another cancelled."""
        slot: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, deque()).append(slot)
        self._grant()
        return slot

    def release(self, key: str) -> None:
        """Gives a slot back."""
        self._held[key] -= 1
        if not self._held[key]:
            del self._held[key]
        self._free += 1
        self._grant()

    def _grant(self) -> None:
        while self._free and self._waiting:
            key = min(self._waiting, key=self._held.__getitem__)
            waiting = self._waiting.pop(key)
            slot = waiting.popleft()
            if waiting:
                # Behind the other keys that hold as many.
                self._waiting[key] = waiting
            if not slot.done():
                slot.set_result(None)
                self._held[key] += 1
                self._free -= 1
