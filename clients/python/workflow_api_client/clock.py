"""Clock of the client's operations, which tests replace."""

import time
from typing import Protocol


class Clock(Protocol):
    """A clock that never goes back; `now` is in seconds."""

    def now(self) -> float:
        """Returns the present time."""

    def sleep(self, seconds: float) -> None:
        """Waits for `seconds`."""

    async def sleep_async(self, seconds: float) -> None:
        """Waits for `seconds`; other tasks go on meanwhile."""


class SystemClock:
    """The clock of the machine."""

    def now(self) -> float:
        """Returns the present time."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Waits for `seconds`."""
        time.sleep(seconds)

    async def sleep_async(self, seconds: float) -> None:
        """Waits for `seconds`; other tasks go on meanwhile."""
        # Imported here: programs without tasks need not load it.
        import asyncio

        await asyncio.sleep(seconds)
