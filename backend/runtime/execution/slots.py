"""Shares step slots, and the memory of steps, fairly between API keys."""

import asyncio
import threading
from collections import Counter, deque
from typing import Final, NamedTuple

LEAST_TO_RESERVE: Final = 3
"""Fewer are not divided: a key alone would lose half of its throughput, or all of it."""
# A segment holds no slot while it records what a step left, so more segments than slots keep the slots busy.
SEGMENTS_PER_SLOT: Final = 2


class _Request(NamedTuple):
    key: str
    memory_mb: int
    slot: "asyncio.Future[None]"


class StepSlots:
    """A fixed number of slots, and the megabytes that their holders may use together.

    A free slot goes to the key that holds the fewest, among equals to the one that waits longest. The request at the
    front stays there until there is memory enough for it: a small request never overtakes a large one.

    A key that holds a slot leaves one free, with a slot's share of the memory, for keys that hold none, where there is
    room for `LEAST_TO_RESERVE` steps like the one it asks for. A request that only this reservation holds back can be
    overtaken by those keys. Without `reserve` nothing is: the hand-over of segments leaves room then.

    Used on the engine's loop only, but for `take_now`.
    """

    def __init__(self, count: int, memory_mb: int, *, reserve: bool = True) -> None:
        self.count = count
        self._reserve = reserve
        self.memory_mb = memory_mb
        self._free = count
        self._free_mb = memory_mb
        self._held: Counter[str] = Counter()
        self._waiting: dict[str, deque[_Request]] = {}
        self._front: _Request | None = None
        self._lock = threading.Lock()

    @property
    def in_use(self) -> int:
        """How many slots are held; from any thread."""
        return self.count - self._free

    def request(self, key: str, memory_mb: int) -> asyncio.Future[None]:
        """Returns a future that is done once the caller holds a slot, who releases it then, or else cancels the future.

        `memory_mb` is at most the memory of all slots.
        """
        slot: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Others may wait behind a request that is cancelled.
        slot.add_done_callback(lambda _: self._grant())
        with self._lock:
            self._waiting.setdefault(key, deque()).append(_Request(key, memory_mb, slot))
        self._grant()
        return slot

    def take_now(self, key: str, memory_mb: int) -> bool:
        """Takes a slot where one is free and nobody waits, to be released on the loop; from any thread."""
        with self._lock:
            if self._waits() or not self._free or memory_mb > self._free_mb or not self._leaves_room(key, memory_mb):
                return False
            self._hold(key, memory_mb)
            return True

    def release(self, key: str, memory_mb: int) -> None:
        """Releases a slot with the memory that was requested."""
        with self._lock:
            self._held[key] -= 1
            if not self._held[key]:
                del self._held[key]
            self._free += 1
            self._free_mb += memory_mb
        self._grant()

    def _grant(self) -> None:
        with self._lock:
            while (request := self._next()) is not None:
                request.slot.set_result(None)
                self._hold(request.key, request.memory_mb)

    def _hold(self, key: str, memory_mb: int) -> None:
        self._held[key] += 1
        self._free -= 1
        self._free_mb -= memory_mb

    def _next(self) -> _Request | None:
        """Removes and returns the request that is granted now, if any."""
        if not self._free or not self._waits():
            return None
        if self._front is None:
            key = self._in_turn()
            first = self._waiting[key][0]
            if first.memory_mb <= self._free_mb and not self._leaves_room(key, first.memory_mb):
                # No key waits that holds none.
                return None
            self._front = self._pop(key)
        front = self._front
        if front.memory_mb > self._free_mb:
            return None
        if self._leaves_room(front.key, front.memory_mb):
            self._front = None
            return front
        key = self._in_turn() if self._waiting else front.key
        fits = not self._held[key] and self._waiting[key][0].memory_mb <= self._free_mb
        return self._pop(key) if fits else None

    def _waits(self) -> bool:
        """Returns whether anybody waits; forgets requests that were cancelled."""
        if self._front is not None and self._front.slot.done():
            self._front = None
        while self._waiting and self._waiting[key := self._in_turn()][0].slot.done():
            self._pop(key)
        return self._front is not None or bool(self._waiting)

    def _in_turn(self) -> str:
        return min(self._waiting, key=self._held.__getitem__)

    def _pop(self, key: str) -> _Request:
        waiting = self._waiting.pop(key)
        request = waiting.popleft()
        if waiting:
            # Behind the other keys that hold as many.
            self._waiting[key] = waiting
        return request

    def _leaves_room(self, key: str, memory_mb: int) -> bool:
        """Returns whether a key may take a slot that fits, without what is reserved for keys that hold none."""
        if not self._reserve:
            return True
        if not self._held[key] or min(self.count, self.memory_mb // max(1, memory_mb)) < LEAST_TO_RESERVE:
            return True
        return self._free > 1 and self._free_mb - memory_mb >= self.memory_mb // self.count
