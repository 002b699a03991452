"""The runtime of a process whose runs are executed by workers."""

from typing import Final

from backend import metrics
from backend.clock import HOUR_MS
from backend.runtime.engines.dbos import DbosQueue
from backend.runtime.engines.dbos_sql import is_there, purge
from backend.runtime.execution.executor import SEGMENTS_PER_SLOT, TICK_SECONDS
from backend.runtime.execution.workers_sql import step_slots
from backend.runtime.publishing import Publisher
from backend.runtime.scheduling.dispatcher import Dispatch
from backend.runtime.scheduling.sweeper import Sweeper
from backend.runtime.scheduling.ticker import Ticker
from backend.services import Services
from backend.settings import BackendSettings
from backend.storage.objects import ObjectStore
from telemetry import Family

# Without a worker the first few are handed over all the same: they tell, by their launch time-out, that none comes.
_LEAST: Final = 2
_PURGE_SECONDS: Final = 600
_PURGED_AT_ONCE: Final = 1_000


class RemoteRuntime:
    """Hands segments over to workers, and ends what a dead worker left."""

    def __init__(
        self, settings: BackendSettings, url: str, services: Services, objects: ObjectStore, publisher: Publisher
    ) -> None:
        self._services = services
        self._queue = DbosQueue(url)
        self._dispatch = Dispatch(services, objects, self._queue, self._most, self, publisher.remove)
        sweeper = Sweeper(services.database, services.clock, self._queue, settings.launch_timeout_ms, owner="")
        self._sweeping = Ticker("sweeper", sweeper.sweep, TICK_SECONDS)
        self._purging = Ticker("queue-purge", self._purge, _PURGE_SECONDS)

    def start(self) -> None:
        """Takes up what is queued."""
        self._dispatch.start()
        self._sweeping.start()
        self._purging.start()

    def stop(self) -> None:
        """Hands over nothing more; again is harmless."""
        self._dispatch.stop()
        self._sweeping.stop()
        self._purging.stop()
        self._queue.stop()

    def wake(self) -> None:
        """Tells that a segment was queued; see `Runtime.wake`."""
        self._dispatch.launching.wake()

    def cancel(self, run_id: str) -> None:
        """The worker that executes the run looks for itself; see `Runtime.cancel`."""

    def forget(self, run_id: str) -> None:  # noqa: ARG002 - its order is in the tables, and survives a crash
        """Tells that a run was erased; see `Runtime.forget`."""
        self._dispatch.removing.wake()

    def measured(self) -> list[Family]:
        """That nothing is executed here."""
        return [
            measure.with_value(0) for measure in (metrics.STEP_SLOTS, metrics.STEP_SLOTS_USED, metrics.SEGMENTS_RUNNING)
        ]

    def upkeep(self) -> dict[str, int]:
        """Erases and deletes what is past its time; see `Runtime.upkeep`."""
        return self._dispatch.upkeep()

    def _purge(self) -> None:
        """Removes what the queue keeps of what ended an hour ago."""
        database, before = self._services.database, self._services.clock() - HOUR_MS
        if not database.read(is_there):
            return
        with database.hold("queue purge") as mine:
            while mine and database.write(lambda tx: purge(tx, before, _PURGED_AT_ONCE), lock_key="queue purge"):
                pass

    def _most(self) -> int:
        slots = self._services.database.read(lambda tx: step_slots(tx, self._services.clock()))
        return max(_LEAST, SEGMENTS_PER_SLOT * slots)
