"""Runtime of a process that starts runs and leaves their execution to workers."""

import threading
from collections.abc import Callable, Collection
from typing import Final

from backend.common import metrics
from backend.common.clock import HOUR_MS, Clock
from backend.common.states import QUEUED, ROOM
from backend.runtime.engines.dbos import DbosBackend
from backend.runtime.scheduling import sql
from backend.runtime.scheduling.dispatcher import RunDispatcher
from backend.runtime.scheduling.run_reaper import RunReaper
from backend.runtime.scheduling.sql import total_step_slots
from backend.services.dependencies import Services
from backend.storage.database import Database
from backend.storage.outage import TICK_SECONDS, Ticker
from telemetry import Family

_PURGE_SECONDS: Final = 600


class RemoteRuntime:
    """Dispatches segments to workers, and closes runs of dead workers; see `services.runs.runtime_port.Runtime`."""

    def __init__(self, services: Services, backend: DbosBackend, dispatcher: RunDispatcher, reaper: RunReaper) -> None:
        self._services = services
        self._backend = backend
        self._dispatcher = dispatcher
        self._reaping = Ticker("sweeper", reaper.reap, TICK_SECONDS)
        services.database.listen(self._on_room, ROOM)
        services.database.listen(lambda _: self.wake(), QUEUED)
        self._purging = Ticker("dbos-purge", self._purge, _PURGE_SECONDS)
        self._stopping = threading.Event()

    def start(self) -> None:
        """Starts the dispatcher, the reaper and the purge of DBOS records."""
        self._dispatcher.start()
        self._reaping.start()
        self._purging.start()

    def stop(self) -> None:
        """Stops dispatching. Idempotent."""
        self._stopping.set()
        self._dispatcher.stop()
        self._reaping.stop()
        self._purging.stop()
        self._backend.stop()

    def begin_run(self, *_: object) -> None:
        """Returns None, as a worker begins every run; see `Runtime.begin_run`."""

    def wake(self) -> None:
        """Starts to dispatch queued segments; see `Runtime.wake`."""
        self._dispatcher.launching.wake()

    def cancel(self, run_id: str) -> None:
        """Does nothing, as the worker that executes the run reads the cancel from its row; see `Runtime.cancel`."""

    def forget(self, run_id: str) -> None:  # noqa: ARG002 - the removal is ordered in the tables, and survives a crash
        """Starts to remove the data of an erased run; see `Runtime.forget`."""
        self._dispatcher.removing.wake()

    def measured(self) -> list[Family]:
        """Returns metrics of zero slots and segments, because this process executes none."""
        return [
            measure.with_value(0) for measure in (metrics.STEP_SLOTS, metrics.STEP_SLOTS_USED, metrics.SEGMENTS_RUNNING)
        ]

    def upkeep(self) -> dict[str, int]:
        """Deletes expired rows; see `Runtime.upkeep`."""
        return self._dispatcher.upkeep()

    def _on_room(self, _: Collection[str] | None) -> None:
        """Starts a dispatch round after a worker may have freed a slot; a listener of the database."""
        self._dispatcher.segment_ended()

    def _purge(self) -> None:
        """Removes the records of DBOS about segments that ended an hour ago."""
        database, before = self._services.database, self._services.clock() - HOUR_MS
        with database.try_advisory_lock("queue purge") as acquired:
            if acquired:
                self._backend.purge(before, database.read(sql.open_ids), lambda: not self._stopping.is_set())


def worker_capacity(database: Database, lease_clock: Clock) -> Callable[[], int]:
    """Returns a function that sums the step slots of all live workers: the most segments to dispatch to them.

    Further segments wait in the tables, where any worker may take them. `lease_clock` gives the times of leases.
    """

    def most() -> int:
        now = lease_clock()
        return database.read(lambda tx: total_step_slots(tx, now))

    return most
