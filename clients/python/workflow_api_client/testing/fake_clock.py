"""A clock that only advances by sleeping."""

import asyncio
from datetime import datetime, timedelta, timezone
from typing import Final

LONGEST_SECONDS: Final = 24 * 3600.0

_BEGIN: Final = datetime(2026, 1, 1, tzinfo=timezone.utc)


class FakeClock:
    """Clock in seconds from 0; sleeping advances it without waiting.

    Raises:
        RuntimeError: a day has passed, so that the test probably waits for an event that never comes.
    """

    def __init__(self) -> None:
        self._now = 0.0

    def now(self) -> float:
        """Returns the present time."""
        return self._now

    def sleep(self, seconds: float) -> None:
        """Advances the clock."""
        self._now += max(0.0, seconds)
        if self._now > LONGEST_SECONDS:
            raise RuntimeError("A day has passed, and what is waited for is not in the script.")

    async def sleep_async(self, seconds: float) -> None:
        """Advances the clock, and lets other tasks go on."""
        self.sleep(seconds)
        await asyncio.sleep(0)

    def date(self) -> datetime:
        """Returns the present time as a date."""
        return _BEGIN + timedelta(seconds=self._now)

    def text(self) -> str:
        """Returns the present time as the API writes it."""
        return self.date().isoformat(timespec="milliseconds")
