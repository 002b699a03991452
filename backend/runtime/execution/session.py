"""A worker session: what executes segments under one owner id, from its start to its end. (DESIGN.md, 6)."""

import socket
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from backend.runtime.engines.local import LocalEngine
from backend.runtime.execution.lease import Lease
from backend.runtime.execution.segment_context import SegmentContext
from backend.runtime.scheduling import upkeep_sql
from backend.runtime.scheduling.sweeper import Sweeper
from backend.settings import BackendSettings

if TYPE_CHECKING:
    from backend.runtime.engines.dbos import DbosWorker


class WorkerSession:
    """Engine and sweeper of one owner and, where other processes share the database, its lease and its queue.

    `start` and `stop` are called by one thread at a time; the rest from any. A lease that is lost ends every segment
    at once, also while a `stop` waits for them; `on_lost` is then called from the lease's thread and must not wait.
    """

    def __init__(
        self,
        settings: BackendSettings,
        context: SegmentContext,
        on_free: Callable[[], None],
        on_lost: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._context = context
        self._on_lost = on_lost
        self._shared = settings.database is not None
        self._lease: Lease | None = None
        self._queue: DbosWorker | None = None
        self._lost = False
        self._stopped = False
        self.engine = LocalEngine(context, on_free)
        self.slots = context.slots
        self.sweeper = Sweeper(
            context.database,
            context.clock,
            self.engine,
            settings.launch_timeout_ms,
            context.owner if self._shared else None,
        )

    @property
    def lost(self) -> bool:
        """Whether the lease was lost, and another session has to follow."""
        return self._lost

    @property
    def active(self) -> bool:
        """Whether segments are taken."""
        return not (self._lost or self._stopped)

    def start(self) -> None:
        """Settles what an earlier owner left, and begins to take segments; a start that fails leaves nothing behind.

        Raises:
            DatabaseAwayError: the database cannot be reached.
        """
        try:
            self._start()
        except BaseException:
            self.stop(0)
            raise

    def other_worker_host(self) -> str | None:
        """The host of another process that executes runs of this database, if any; see `Lease.company`."""
        return None if self._lease is None else self._lease.other_worker_host()

    def stop(self, grace_seconds: float) -> None:
        """Takes nothing new, gives segments so long to end, and ends the rest as orphaned; again is harmless."""
        if self._stopped:
            return
        self._stopped = True
        # The last is called first, and each though another fails.
        with ExitStack() as parts:
            if self._lease is not None:
                parts.callback(self._lease.stop)
            if self._queue is not None and not grace_seconds:
                # After the steps, for it may wait long for a database that is away.
                parts.callback(self._queue.stop, 0)
            parts.callback(self.engine.stop, 0 if self._queue is not None else grace_seconds)
            if self._queue is not None and grace_seconds:
                parts.callback(self._queue.stop, grace_seconds)
            if self._lease is not None and grace_seconds:
                parts.callback(self._lease.drain)

    def _start(self) -> None:
        settings, context = self._settings, self._context
        if self._shared:
            self._lease = Lease(
                context.database, context.clock, context.owner, socket.gethostname(), settings.step_slots, self._lose
            )
            self._lease.start()
            if settings.engine == "local":
                # What a process that is gone was handed is with nobody; with another that lives, twice is harmless.
                context.database.write(upkeep_sql.take_back, lock_key="launcher")
        else:
            self.sweeper.recover()
        self.engine.start()
        if settings.database is not None and settings.engine == "dbos":
            from backend.runtime.engines.dbos import DbosWorker

            # No more than it has slots for: what waits, waits where another worker may take it.
            self._queue = DbosWorker(settings.database, context.owner, self.engine, settings.step_slots)
            self._queue.start()

    def _lose(self) -> None:
        """Ends every step now: others may take it that this process is dead."""
        self._lost = True
        self.engine.abort()
        self._on_lost()
