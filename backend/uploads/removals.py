"""Removes uploads that no run has taken in time, and those of erased runs; what a crash interrupts is repeated."""

import logging
from collections.abc import Callable
from typing import Final

from backend import metrics
from backend.clock import Clock
from backend.storage.database import Database
from backend.storage.object_keys import upload_prefix
from backend.storage.objects import ObjectStore
from backend.uploads import sql

_LOG = logging.getLogger(__name__)
_BATCH: Final = 100


class UploadRemovals:
    """Carries out the removals, in the calling thread."""

    def __init__(self, database: Database, objects: ObjectStore, clock: Clock) -> None:
        self._database = database
        self._objects = objects
        self._clock = clock

    def round(self, halted: Callable[[], bool]) -> None:
        """Removes what is due until nothing is left; what fails is logged and stays due."""
        now = self._clock()
        failed: set[str] = set()
        while due := [each for each in self._due(now, _BATCH + len(failed)) if each not in failed]:
            for upload_id in due:
                if halted():
                    return
                try:
                    self._remove(upload_id, now)
                except Exception:  # noqa: BLE001 - nobody can reach it, and it stays due
                    failed.add(upload_id)
                    metrics.REMOVAL_FAILURES.add()
                    _LOG.exception("The removal of upload %s failed; it stays pending", upload_id)

    def _due(self, now: int, most: int) -> list[str]:
        return self._database.read(lambda tx: sql.expired(tx, now, most))

    def _remove(self, upload_id: str, now: int) -> None:
        # From this commit on no start takes it, and no part of it is stored any more.
        if self._database.write(lambda tx: sql.expire(tx, upload_id, now)):
            self._objects.delete_prefix(upload_prefix(upload_id))
            self._database.write(lambda tx: sql.remove(tx, upload_id))
