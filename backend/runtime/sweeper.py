"""Ends what must end though nobody works on it, and removes what is kept no longer. (DESIGN.md, 6)."""

import logging
import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from backend.clock import DAY_MS, Clock
from backend.runtime import upkeep_store as store
from backend.runtime.endings import HOUR_MS, LAUNCH_FAILED, ORPHANED, Ending, reason_to_stop, time_limit
from backend.runtime.engines.engine import Engine
from backend.storage.database import Database, Tx

_LOG = logging.getLogger(__name__)

# SPEC.md, Request and payload bounds, and Workflow and resource limits of the product.
KEPT_MS: Final[Mapping[str, int]] = {
    "idempotency_records": DAY_MS,
    "usage_records": 90 * DAY_MS,
    "audit_records": 400 * DAY_MS,
}

_TIDYING_EVERY_MS: Final = 60_000


class Sweeper:
    """Looks at every run that is in flight; each closing is a compare-and-set, so a run that just ended stays as it is.

    `work` is the folder where runs in flight keep what is theirs on disk.
    """

    def __init__(self, database: Database, clock: Clock, engine: Engine, work: Path, launch_timeout_ms: int) -> None:
        self._database = database
        self._clock = clock
        self._engine = engine
        self._work = work
        self._launch_timeout_ms = launch_timeout_ms
        self._next_tidying = 0
        self._next_purge = 0

    def recover(self) -> None:
        """At the start of the process: what an earlier one left running is orphaned, what waited is launched anew.

        Parked and finished runs stay as they are. (SPEC.md, Versioning: interrupted, not resumed)
        """
        now = self._clock()
        for segment in self._database.read(store.running):
            self._close(segment.run_id, ORPHANED, now)
        self._database.write(store.take_back)

    def sweep(self) -> None:
        """One round; cheap where nothing is in flight."""
        now = self._clock()
        for segment in self._database.read(store.running):
            reason = reason_to_stop(segment, now)
            if reason is not None:
                # It records the end itself, once its processes are dead.
                self._engine.cancel(segment.segment_id)
        for run in self._database.read(lambda tx: store.parked_past_limit(tx, now)):
            self._close(run.run_id, time_limit(run.max_run_hours), now)
        for segment in self._database.read(lambda tx: store.not_launched(tx, now - self._launch_timeout_ms)):
            self._fail_launch(segment, now)
        if now >= self._next_tidying:
            self._next_tidying = now + _TIDYING_EVERY_MS
            self.tidy()
        if now >= self._next_purge:
            self._next_purge = now + HOUR_MS
            self.purge()

    def purge(self) -> None:
        """Deletes records past their time."""
        now = self._clock()
        for table, kept_ms in KEPT_MS.items():
            self._database.write(partial(store.purge, table=table, before=now - kept_ms))

    def tidy(self) -> None:
        """Removes the folders of runs that ended while no segment of theirs ran."""
        folders = list(self._work.iterdir())
        in_flight = self._database.read(store.in_flight) if folders else set()
        for folder in folders:
            if folder.name not in in_flight:
                shutil.rmtree(folder, ignore_errors=True)

    def _close(self, run_id: str, ending: Ending, now: int) -> None:
        if self._database.write(lambda tx: ending.close(tx, run_id, now)):
            _LOG.warning("Run %s was closed as %s", run_id, ending.code)

    def _fail_launch(self, segment: Any, now: int) -> None:
        def work(tx: Tx) -> bool:
            return store.is_queued(tx, segment.segment_id) and LAUNCH_FAILED.close(tx, segment.run_id, now)

        if self._database.write(work):
            _LOG.warning("Run %s was not taken up in time", segment.run_id)
