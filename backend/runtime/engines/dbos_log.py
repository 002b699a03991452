"""Keeps what DBOS logs of an outage of the database out of the log, which has the outage once."""

import logging
from collections.abc import Callable

from backend.storage.outage import OUTAGE


class OutageFilter(logging.Filter):
    """Drops records while the database is away: DBOS polls ten times a second, and logs each time that it failed.

    It may fail before anything of ours: `healthy` asks the database, which makes the outage known.
    """

    def __init__(self, healthy: Callable[[], bool]) -> None:
        super().__init__()
        self._healthy = healthy

    def filter(self, record: logging.LogRecord) -> bool:  # noqa: ARG002 - any that DBOS logs
        """Returns whether the record is logged."""
        if not OUTAGE.lasts:
            self._healthy()
        return not OUTAGE.lasts
