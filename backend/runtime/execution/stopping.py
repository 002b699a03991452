"""Waits for a segment's work, unless the segment is to end."""

import asyncio
from collections.abc import Collection
from typing import Any, TypeVar

T = TypeVar("T")


class StoppedError(Exception):
    """Somebody asked the segment to end."""


class Stopping:
    """The wish that one segment ends, on the engine's loop; `forget` it in the end."""

    def __init__(self, wish: asyncio.Event) -> None:
        self._wish: asyncio.Future[Any] = asyncio.ensure_future(wish.wait())

    async def or_result(self, work: asyncio.Future[T]) -> T:
        """What the work gives. Raises as `or_first`; the work then goes on, and ending it is the caller's."""
        await self.or_first({work})
        return work.result()

    async def or_first(self, works: Collection[asyncio.Future[Any]], seconds: float | None = None) -> None:
        """Waits until one of the works is done, or for so many seconds.

        Raises:
            StoppedError: the segment is to end.
        """
        await asyncio.wait({*works, self._wish}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if self._wish.done():
            raise StoppedError

    def forget(self) -> None:
        """Waits no longer."""
        self._wish.cancel()
