"""A worker session: what executes segments under one owner id, from its start to its end (docs/architecture.md)."""

from collections.abc import Callable, Collection
from contextlib import ExitStack
from typing import TYPE_CHECKING

from backend.runtime.engines.local import LocalEngine
from backend.runtime.execution.slots import StepSlots
from backend.runtime.scheduling.sweeper import Sweeper
from backend.runtime.worker.lease import Lease

if TYPE_CHECKING:
    from backend.runtime.engines.dbos import DbosWorker


class WorkerSession:
    """Engine and sweeper of one owner and, where other processes share the database, its lease and its queue.

    `start` and `stop` are called by one thread at a time; the rest from any. A lease that is lost ends every segment
    at once, also while a `stop` waits for them.

    Args:
        lease: None where the database is this process's alone.
        queue: Where segments come from workers' common queue; None where they are submitted to the engine.
    """

    def __init__(
        self,
        engine: LocalEngine,
        slots: StepSlots,
        sweeper: Sweeper,
        lease: Lease | None = None,
        queue: "DbosWorker | None" = None,
    ) -> None:
        self.engine = engine
        self.slots = slots
        self.sweeper = sweeper
        self._lease = lease
        self._queue = queue
        self._started: list[Lease | DbosWorker] = []
        self._lost = False
        self._stopped = False

    @property
    def lost(self) -> bool:
        """Returns whether the lease was lost, and another session has to follow."""
        return self._lost

    @property
    def active(self) -> bool:
        """Returns whether segments are taken."""
        return not (self._lost or self._stopped)

    @property
    def sole_owner(self) -> str | None:
        """The owner of all segments, where no other process shares the database and segments are taken."""
        return self.engine.owner if self._lease is None and self._queue is None and self.active else None

    def start(self, on_lost: Callable[[], None]) -> None:
        """Settles what an earlier owner left, and begins to take segments; a start that fails leaves nothing behind.

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

    def hear(self, names: Collection[str] | None) -> None:
        """Looks into the queue at once where segments were handed over; see `DbosWorker.hear`."""
        if self._queue is not None:
            self._queue.hear(names)

    def stop(self, grace_seconds: float) -> None:
        """Takes nothing new, gives segments so long to end, and ends the rest as orphaned; may be repeated."""
        if self._stopped:
            return
        self._stopped = True
        lease = self._lease if self._lease in self._started else None
        queue = self._queue if self._queue in self._started else None
        # The last is called first, and each though another fails.
        with ExitStack() as parts:
            if lease is not None:
                parts.callback(lease.stop)
            if queue is not None and not grace_seconds:
                # After the steps, for it may wait long for a database that is unavailable.
                parts.callback(queue.stop, 0)
            parts.callback(self.engine.stop, 0 if queue is not None else grace_seconds)
            if queue is not None and grace_seconds:
                parts.callback(queue.stop, grace_seconds)
            if lease is not None and grace_seconds:
                parts.callback(lease.drain)
            if queue is not None:
                parts.callback(queue.halt)

    def _start(self, on_lost: Callable[[], None]) -> None:
        def lose() -> None:
            # Others may take it that this process is dead.
            self._lost = True
            if self._queue is not None:
                self._queue.halt()
            self.engine.abort()
            on_lost()

        if self._lease is None:
            self.sweeper.recover()
        else:
            self._started.append(self._lease)
            self._lease.start(lose)
            if self._queue is None:
                # A dead process may have had them; handing over one that a live process has is harmless.
                self.sweeper.requeue_all()
        self.engine.start()
        if self._queue is not None:
            self._started.append(self._queue)
            self._queue.start()
