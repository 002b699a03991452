"""The worker sessions of a process, of which one at a time executes segments (docs/architecture.md)."""

import logging
from collections.abc import Callable, Collection
from collections.abc import Set as AbstractSet

from backend import metrics
from backend.runtime.ticker import TICK_SECONDS, Ticker
from backend.runtime.worker.session import WorkerSession
from backend.sandbox import Sandbox
from backend.storage.database import DatabaseUnavailableError
from backend.storage.outage import is_logged
from telemetry import Family

_LOG = logging.getLogger(__name__)


class WorkerSessions:
    """An `Engine` that gives segments to the present session; a session whose lease was lost is followed by another.

    The present session changes in `start`, then in the thread that replaces lost ones, then in `stop`, which ends that
    thread first; every other method reads it once.

    Args:
        new_session: Makes a session under an owner id of its own, from the sandbox and what `start` is given.
    """

    def __init__(self, new_session: Callable[[Sandbox, Callable[[], None]], WorkerSession]) -> None:
        self._new_session = new_session
        self._make: Callable[[], WorkerSession] | None = None
        self._session: WorkerSession | None = None
        self._sweeping = Ticker("sweeper", self._sweep, TICK_SECONDS)
        self._replacing = Ticker("session", self._replace_lost, TICK_SECONDS)

    @property
    def present(self) -> WorkerSession | None:
        """The present session; None before the first."""
        return self._session

    @property
    def sole_owner(self) -> str | None:
        """The owner of all segments, where this process alone executes any and does so now; from any thread."""
        session = self._session
        return None if session is None else session.sole_owner

    def start(self, sandbox: Sandbox, on_free: Callable[[], None]) -> None:
        """Starts the first session; `on_free` is called whenever a segment has ended.

        Raises:
            DatabaseUnavailableError: the database cannot be reached.
        """
        self._make = lambda: self._new_session(sandbox, on_free)
        self._begin(self._make())
        self._sweeping.start()
        self._replacing.start()

    def stop(self, grace_seconds: float) -> None:
        """Takes nothing new, gives segments so long to end, and ends the rest as orphaned; may be repeated."""
        self._replacing.stop()
        if self._session is not None:
            self._session.stop(grace_seconds)
        self._sweeping.stop()

    def submit(self, segment_id: str, hand_over: int) -> None:
        """Executes a queued segment soon; see `Engine.submit`.

        Raises:
            RuntimeError: nothing is executed now.
        """
        session = self._session
        if session is None:
            raise RuntimeError("this process executes nothing now")
        session.engine.submit(segment_id, hand_over)

    def cancel(self, segment_id: str) -> None:
        """Ends a segment; see `Engine.cancel`."""
        session = self._session
        if session is not None:
            session.engine.cancel(segment_id)

    def executes(self, segment_id: str) -> bool:
        """Returns whether the segment goes on here; see `Engine.executes`."""
        session = self._session
        return session is not None and session.engine.executes(segment_id)

    def claimed(self) -> AbstractSet[str]:
        """Returns the segments that are executed here and set running; see `Engine.claimed`."""
        session = self._session
        return frozenset() if session is None else session.engine.claimed()

    def hear(self, names: Collection[str] | None) -> None:
        """Looks into the queue at once where segments were handed over; a listener of the database."""
        session = self._session
        if session is not None:
            session.hear(names)

    def sweep_now(self) -> None:
        """Looks at once for segments that must end."""
        self._sweeping.wake()

    def other_worker_host(self) -> str | None:
        """Returns the host of another process that executes runs of this database, if any."""
        session = self._session
        return None if session is None else session.other_worker_host()

    def measured(self) -> list[Family]:
        """Returns what is executed here, as metrics; from any thread."""
        session = self._session
        return [
            metrics.STEP_SLOTS.with_value(session.slots.count if session is not None and session.active else 0),
            metrics.STEP_SLOTS_USED.with_value(0 if session is None else session.slots.in_use),
            metrics.SEGMENTS_RUNNING.with_value(0 if session is None else session.engine.running),
        ]

    def _begin(self, session: WorkerSession) -> None:
        session.start(on_lost=self._replacing.wake)
        self._session = session

    def _replace_lost(self) -> None:
        """Starts another session after one whose lease was lost; what fails is tried again in the next round."""
        session, make = self._session, self._make
        if session is None or make is None or not session.lost:
            return
        session.stop(0)
        try:
            self._begin(make())
        except DatabaseUnavailableError as error:
            level = logging.DEBUG if is_logged(error) else logging.INFO
            _LOG.log(level, "No lease can be taken while the database is unavailable: %s", error)

    def _sweep(self) -> None:
        session = self._session
        if session is not None:
            session.sweeper.sweep()
