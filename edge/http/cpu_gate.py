"""Work that would hold up everybody else: one at a time, and for a part of the time only."""

import asyncio
from time import monotonic
from typing import Final

from edge.errors import Refusal

_SHARE: Final = 0.25
"""The most of the event loop's time that goes to such work while others wait to do some."""

_MOST_WAITING: Final = 32


class CpuGate:
    """A queue for such work, as `async with turns:` around what does not wait for anything."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._waiting = 0
        self._began = 0.0
        self._rest_until = 0.0

    async def __aenter__(self) -> None:
        """Wait for a turn.

        Raises:
            Refusal: `runtime_unreachable`; too many wait already.
        """
        if self._waiting >= _MOST_WAITING:
            raise Refusal("runtime_unreachable")
        self._waiting += 1
        try:
            await self._lock.acquire()
            try:
                await asyncio.sleep(max(0.0, self._rest_until - monotonic()))
            except BaseException:
                self._lock.release()
                raise
        finally:
            self._waiting -= 1
        self._began = monotonic()

    async def __aexit__(self, *_: object) -> None:
        """Let the next one wait until everybody else has had their time."""
        began, now = self._began, monotonic()
        self._rest_until = now + (now - began) * (1 / _SHARE - 1)
        self._lock.release()
