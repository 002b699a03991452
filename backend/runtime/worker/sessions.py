"""Worker sessions, one at a time in a process: each executes segments under an owner id (docs/architecture.md)."""

import logging
from collections.abc import Callable, Collection
from collections.abc import Set as AbstractSet
from contextlib import ExitStack
from typing import TYPE_CHECKING

from backend.common import metrics
from backend.isolation.sandbox import Sandbox
from backend.runtime.engines.local import LocalEngine
from backend.runtime.execution.slots import StepSlots
from backend.runtime.scheduling.run_reaper import RunReaper
from backend.runtime.worker.lease import Lease
from backend.storage.database import DatabaseUnavailableError
from backend.storage.outage import TICK_SECONDS, Ticker, is_logged
from telemetry import Family

if TYPE_CHECKING:
    from backend.runtime.engines.dbos import DbosWorker

_LOG = logging.getLogger(__name__)


class WorkerSession:
    """Engine and run reaper of one owner, with a lease and a DBOS worker if other processes share the database.

    `start` and `stop` are called by one thread at a time; the rest from any. A lease that is lost ends every segment
    at once, also while a `stop` waits for them.

    Args:
        lease: None if no other process uses the database.
        dbos_worker: Takes segments from the queue of all workers; None if they are submitted to the engine.
    """

    def __init__(
        self,
        engine: LocalEngine,
        slots: StepSlots,
        reaper: RunReaper,
        lease: Lease | None = None,
        dbos_worker: "DbosWorker | None" = None,
    ) -> None:
        self.engine = engine
        self.slots = slots
        self.reaper = reaper
        self._lease = lease
        self._dbos_worker = dbos_worker
        self._started: list[Lease | DbosWorker] = []
        self._lost = False
        self._stopped = False

    @property
    def lost(self) -> bool:
        """Returns whether the lease was lost, so that another session must replace this one."""
        return self._lost

    @property
    def active(self) -> bool:
        """Returns whether the session takes segments."""
        return not (self._lost or self._stopped)

    @property
    def begins_runs(self) -> bool:
        """Returns whether the session takes segments, and no other process shares the database."""
        return self._lease is None and self._dbos_worker is None and not (self._lost or self._stopped)

    def start(self, on_lost: Callable[[], None]) -> None:
        """Ends segments of earlier owners, and begins to take segments; a start that fails leaves nothing behind.

        `on_lost` is called from the lease's thread once the lease is lost, and must not wait.

        Raises:
            DatabaseUnavailableError: the database cannot be reached.
        """
        try:
            self._start(on_lost)
        except BaseException:
            self.stop(0)
            raise

    def other_worker_host(self) -> str | None:
        """Returns the host of another process that executes runs of this database; see `Lease.other_worker_host`."""
        return None if self._lease is None else self._lease.other_worker_host()

    def on_announcement(self, names: Collection[str] | None) -> None:
        """Wakes the DBOS worker if segments were dispatched; see `DbosWorker.on_announcement`."""
        if self._dbos_worker is not None:
            self._dbos_worker.on_announcement(names)

    def stop(self, grace_seconds: float) -> None:
        """Takes no new segments, gives the present ones a grace, and ends the rest as orphaned. Idempotent."""
        if self._stopped:
            return
        self._stopped = True
        lease = self._lease if self._lease in self._started else None
        dbos_worker = self._dbos_worker if self._dbos_worker in self._started else None
        # The stack calls the last callback first, and every callback even if another fails.
        with ExitStack() as parts:
            if lease is not None:
                parts.callback(lease.stop)
            if dbos_worker is not None:
                # Stopped after the steps, for it may wait long for a database that is unavailable.
                parts.callback(dbos_worker.stop)
            parts.callback(self.engine.stop, grace_seconds)
            if lease is not None and grace_seconds:
                parts.callback(lease.drain)
            if dbos_worker is not None:
                parts.callback(dbos_worker.halt)

    def _start(self, on_lost: Callable[[], None]) -> None:
        def on_lease_lost() -> None:
            # Other processes may regard this one as dead.
            self._lost = True
            if self._dbos_worker is not None:
                self._dbos_worker.halt()
            self.engine.abort()
            on_lost()

        if self._lease is None:
            self.reaper.recover()
        else:
            self._started.append(self._lease)
            self._lease.start(on_lease_lost)
            if self._dbos_worker is None:
                # A dead process may have had these segments; dispatching a segment that a live process has is harmless.
                self.reaper.requeue_all()
        self.engine.start()
        if self._dbos_worker is not None:
            self._started.append(self._dbos_worker)
            self._dbos_worker.start()


class WorkerSessions:
    """An `Engine` that passes segments to the current session, and replaces a session whose lease was lost.

    The current session changes in `start`, then in the thread that replaces lost ones, then in `stop`, which ends that
    thread first; every other method reads it once.

    Args:
        new_session: Makes a session under an owner id of its own, from the arguments of `start`.
    """

    def __init__(self, new_session: Callable[[Sandbox, Callable[[], None]], WorkerSession]) -> None:
        self._new_session = new_session
        self._make: Callable[[], WorkerSession] | None = None
        self.current: WorkerSession | None = None
        """The current session; None before the first."""
        self._reaping = Ticker("sweeper", self._reap, TICK_SECONDS)
        self._replacing = Ticker("session", self._replace_lost, TICK_SECONDS)

    def start(self, sandbox: Sandbox, on_free: Callable[[], None]) -> None:
        """Starts the first session; `on_free` is called whenever a segment has ended.

        Raises:
            DatabaseUnavailableError: the database cannot be reached.
        """
        self._make = lambda: self._new_session(sandbox, on_free)
        self._begin(self._make())
        self._reaping.start()
        self._replacing.start()

    def stop(self, grace_seconds: float) -> None:
        """Takes no new segments, gives the present ones a grace, and ends the rest as orphaned. Idempotent."""
        self._replacing.stop()
        if self.current is not None:
            self.current.stop(grace_seconds)
        self._reaping.stop()

    def submit(self, segment_id: str, dispatch: int) -> None:
        """Executes a queued segment soon; see `Engine.submit`.

        Raises:
            RuntimeError: no session is active.
        """
        session = self.current
        if session is None:
            raise RuntimeError("this process executes nothing now")
        session.engine.submit(segment_id, dispatch)

    def cancel(self, segment_id: str) -> None:
        """Ends a segment; see `Engine.cancel`."""
        session = self.current
        if session is not None:
            session.engine.cancel(segment_id)

    def abandon(self, segment_id: str) -> None:
        """Ends a segment that another process has; see `Engine.abandon`."""
        session = self.current
        if session is not None:
            session.engine.abandon(segment_id)

    def executes(self, segment_id: str) -> bool:
        """Returns whether this process executes the segment; see `Engine.executes`."""
        session = self.current
        return session is not None and session.engine.executes(segment_id)

    def claimed(self) -> AbstractSet[str]:
        """Returns the segments that this process executes and has set running; see `Engine.claimed`."""
        session = self.current
        return frozenset() if session is None else session.engine.claimed()

    def on_announcement(self, names: Collection[str] | None) -> None:
        """Wakes the DBOS worker if segments were dispatched; a listener of the database's announcements."""
        session = self.current
        if session is not None:
            session.on_announcement(names)

    def reap_now(self) -> None:
        """Starts a round of the run reaper at once."""
        self._reaping.wake()

    def other_worker_host(self) -> str | None:
        """Returns the host of another process that executes runs of this database, if any."""
        session = self.current
        return None if session is None else session.other_worker_host()

    def measured(self) -> list[Family]:
        """Returns metrics of the segments of this process. Thread-safe."""
        session = self.current
        return [
            metrics.STEP_SLOTS.with_value(session.slots.count if session is not None and session.active else 0),
            metrics.STEP_SLOTS_USED.with_value(0 if session is None else session.slots.in_use),
            metrics.SEGMENTS_RUNNING.with_value(0 if session is None else session.engine.running),
        ]

    def _begin(self, session: WorkerSession) -> None:
        session.start(on_lost=self._replacing.wake)
        self.current = session

    def _replace_lost(self) -> None:
        """Replaces a session whose lease was lost; failures are retried in the next round."""
        session, make = self.current, self._make
        if session is None or make is None or not session.lost:
            return
        session.stop(0)
        try:
            self._begin(make())
        except DatabaseUnavailableError as error:
            level = logging.DEBUG if is_logged(error) else logging.INFO
            _LOG.log(level, "No lease can be taken while the database is unavailable: %s", error)

    def _reap(self) -> None:
        session = self.current
        if session is not None:
            session.reaper.reap()
