"""Patience with an object store that is away, or full, for a while, and with a database that is away for a moment."""

import logging
from asyncio import sleep
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Final, TypeVar

from backend.storage.database import DatabaseAwayError, OutcomeUnknownError

T = TypeVar("T")

SECONDS: Final = 60.0
"""How long after its first failure something is tried again."""
FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 30.0

DATABASE_SECONDS: Final = 10.0
"""How long a change of a run is tried; less than a lease lasts."""
DATABASE_PAUSE: Final = 0.5

_LOG = logging.getLogger(__name__)


async def patiently(work: Callable[[], Awaitable[T]], what: str) -> T:
    """What `work` gives, which begins anew until it succeeds or a minute is over; `what` names it in the log.

    A store that is silent, where others refuse, makes each try itself take long: the last one begins within the minute.

    Raises:
        OSError: the last try failed too.
    """
    end: float | None = None
    pause = FIRST_PAUSE
    while True:
        try:
            return await work()
        except OSError:
            now = monotonic()
            end = now + SECONDS if end is None else end
            if now >= end:
                raise
            _LOG.warning("%s failed and is tried again for %.0f s", what, end - now, exc_info=True)
        await sleep(min(pause, end - now))
        pause = min(2 * pause, LONGEST_PAUSE)


async def changed(change: Callable[[], Awaitable[None]], run_id: str) -> None:
    """Makes a change of a run in the database, whose short absence is waited out.

    Raises:
        OutcomeUnknownError: it may hold or not.
        DatabaseAwayError: it does not hold, for the database stayed away.
    """
    end = monotonic() + DATABASE_SECONDS
    while True:
        try:
            return await change()
        except OutcomeUnknownError:
            raise
        except DatabaseAwayError:
            if monotonic() >= end:
                raise
            _LOG.warning("Run %s waits for the database", run_id)
        await sleep(DATABASE_PAUSE)
