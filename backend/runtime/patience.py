"""Patience with an object store that is away, or full, for a while."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

T = TypeVar("T")

PAUSES: Final = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
"""Seconds between the tries."""

_LOG = logging.getLogger(__name__)


async def patiently(store: Callable[[], Awaitable[T]], what: str) -> T:
    """What `store` gives, tried again about a minute long; `what` names it in the log.

    Raises:
        OSError: the last try failed too.
    """
    for seconds in PAUSES:
        try:
            return await store()
        except OSError:
            _LOG.warning("%s could not be stored, next try in %g s", what, seconds, exc_info=True)
        await asyncio.sleep(seconds)
    return await store()
