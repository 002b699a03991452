"""Limits how many steps and items of one run execute at the same time (`settings.parallel_steps`)."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class RunCapacity:
    """Semaphore of `most` steps and items, with priority for steps; used on the engine's loop only."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._steps = 0
        self._steps_waiting = 0
        self._items = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._freed: asyncio.Future[None] | None = None

    def admit_steps(self, executing: int, wanted: int) -> int:
        """Returns how many of the `wanted` steps may begin while `executing` run; the rest waits."""
        admitted = max(0, min(wanted, self._most - executing - self._items))
        self._steps, self._steps_waiting = executing + admitted, wanted - admitted
        if self._freed is not None and self._freed.done():
            self._freed = None
        self._grant()
        return admitted

    @property
    def freed(self) -> asyncio.Future[None]:
        """A future that is done once an item has ended, since `admit_steps`, so that a waiting step may begin."""
        if self._freed is None:
            self._freed = asyncio.get_running_loop().create_future()
        return self._freed

    @asynccontextmanager
    async def item(self) -> AsyncIterator[None]:
        """Context in which an item executes; waits for capacity on entry."""
        await self._admission()
        try:
            yield
        finally:
            self._leave()

    async def _admission(self) -> None:
        admitted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(admitted)
        self._grant()
        try:
            await admitted
        except asyncio.CancelledError:
            if admitted.done() and not admitted.cancelled():
                self._leave()
            raise

    def _leave(self) -> None:
        self._items -= 1
        if self._steps_waiting and not self.freed.done():
            self.freed.set_result(None)
        self._grant()

    def _grant(self) -> None:
        while self._waiting and not self._steps_waiting and self._steps + self._items < self._most:
            admitted = self._waiting.popleft()
            if not admitted.done():
                self._items += 1
                admitted.set_result(None)
