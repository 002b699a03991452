"""Bounds the share of the event loop that CPU-heavy work takes."""

import asyncio
from time import monotonic
from typing import Final

from edge.errors import Refusal

_SHARE: Final = 0.25
"""The most of the event loop's time that such work takes while more of it is queued."""

_MAX_QUEUED: Final = 32


class CpuGate:
    """Admits one piece of work at a time: `async with gate:` around code that blocks the loop."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._queued = 0
        self._began = 0.0
        self._closed_until = 0.0

    async def __aenter__(self) -> None:
        """Waits for admission.

        Raises:
            Refusal: `runtime_unreachable`; too much work is queued already.
        """
        if self._queued >= _MAX_QUEUED:
            raise Refusal("runtime_unreachable")
        self._queued += 1
        try:
            await self._lock.acquire()
            try:
                await asyncio.sleep(max(0.0, self._closed_until - monotonic()))
            except BaseException:
                self._lock.release()
                raise
        finally:
            self._queued -= 1
        self._began = monotonic()

    async def __aexit__(self, *_: object) -> None:
        """Keeps the gate closed until other work has had its share."""
        began, now = self._began, monotonic()
        self._closed_until = now + (now - began) * (1 / _SHARE - 1)
        self._lock.release()
