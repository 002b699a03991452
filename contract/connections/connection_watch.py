"""Periodic check of all connections of a server."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from time import monotonic
from typing import Final

from contract.connections.bounded_connection import BoundedConnection, Timeouts

_PERIOD_SECONDS: Final = 1.0

_LOG = logging.getLogger(__name__)


async def watch_connections(
    connections: Callable[[], Iterable[BoundedConnection]], timeouts: Timeouts, evicted: Callable[[], int]
) -> None:
    """Evicts overdue connections and logs how many were evicted, until cancelled.

    `evicted` returns how many the limits of the server have evicted so far; a line is logged when it has doubled.
    """
    logged = 0
    while True:
        await asyncio.sleep(_PERIOD_SECONDS)
        try:
            now = monotonic()
            for connection in tuple(connections()):
                connection.evict_if_overdue(now, timeouts)
        except Exception:  # noqa: BLE001 - one failure does not end the watch
            _LOG.exception("Connections could not be checked for timeouts")
        if evicted() > 2 * logged:
            logged = evicted()
            _LOG.warning("%d connections that kept the server waiting were evicted so far", logged)
