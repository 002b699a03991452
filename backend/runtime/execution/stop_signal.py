"""Waits for a segment's work until the segment is asked to stop."""

import asyncio
from collections.abc import Collection
from typing import Any, TypeVar

T = TypeVar("T")


class StoppedError(Exception):
    """The segment was asked to stop."""


class StopSignal:
    """The request that one segment stops, on the engine's loop; `close` it in the end."""

    def __init__(self, stop: asyncio.Event) -> None:
        self._stopped: asyncio.Future[Any] = asyncio.ensure_future(stop.wait())

    async def result_of(self, work: asyncio.Future[T]) -> T:
        """Returns the result of the work. Raises as `wait_first`; the work then goes on, and the caller ends it."""
        await self.wait_first({work})
        return work.result()

    async def wait_first(self, works: Collection[asyncio.Future[Any]], seconds: float | None = None) -> None:
        """Waits until one of the works is done, or for so many seconds.

        Raises:
            StoppedError: the segment is to stop.
        """
        await asyncio.wait({*works, self._stopped}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if self._stopped.done():
            raise StoppedError

    def close(self) -> None:
        """Ends waiting for the request."""
        self._stopped.cancel()
