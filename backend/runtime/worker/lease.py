"""Lease of a worker, by whose renewal the other processes know that it is alive (docs/architecture.md).

Other processes remove a lease that was not renewed in time, and close the runs of a process without one as orphaned. So
a process that cannot renew its lease must end its steps before the others act: it gives up a little before the lease
ends.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from backend.common import metrics
from backend.common.clock import Clock
from backend.runtime.scheduling import sql
from backend.storage.database import Database, Tx
from backend.storage.outage import RepeatedDatabaseWork, is_logged

_LOG = logging.getLogger(__name__)

OTHER_WORKER_HOST_SECONDS: Final = 6.0
"""Seconds without a renewal after which a lease is taken for one left by an earlier process."""
RENEWED_EVERY_SECONDS: Final = 5.0
"""Pause between two renewals that succeed."""
RETRIED_AFTER_SECONDS: Final = 0.2
"""Pause after a renewal that failed."""
WATCHED_EVERY_SECONDS: Final = 0.5
"""Pause between two checks whether the lease was lost."""
GIVEN_UP_AFTER_SECONDS: Final = 15.0
"""Seconds without a renewal after which the lease counts as lost."""


def seconds_since_boot() -> float:
    """Returns seconds of a clock that nobody sets, and that goes on while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Lease:
    """The lease of `owner`, renewed by one thread of its own and watched by another.

    Args:
        database: The database that the processes share.
        clock: The database's own time, by which other processes check the lease.
        owner: An id that was never used before.
        host: The name of this machine.
        step_slots: Number of steps that this process executes at once.
        room: Returns how many more segments the process can take.
        steady: Seconds of a clock that nobody sets, and that goes on while the machine is suspended.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        owner: str,
        host: str,
        step_slots: int,
        room: Callable[[], int],
        *,
        steady: Callable[[], float] = seconds_since_boot,
    ) -> None:
        self._database = database
        self._clock = clock
        self._owner = owner
        self._host = host
        self._step_slots = step_slots
        self._room = room
        self._steady = steady
        self._on_lost: Callable[[], None] = lambda: None
        self._draining = False
        self._lost = False
        self._renewals = RepeatedDatabaseWork(
            _LOG, f"The lease of {owner} could not be renewed", f"The lease of {owner} is renewed again"
        )
        self._ended = threading.Event()
        self._renewing = threading.Lock()
        self._threads = [
            threading.Thread(target=work, name="lease", daemon=True) for work in (self._renew_forever, self._watch)
        ]

    def start(self, on_lost: Callable[[], None]) -> None:
        """Takes the lease, before anything is executed under it.

        `on_lost` is called by the watching thread, once, when the lease is lost. It must not wait for a
        thread that stops the lease, as `stop` waits for both threads of the lease.

        Raises:
            DatabaseUnavailableError: the database cannot be reached.
        """
        self._on_lost = on_lost
        self._renewed = self._steady()
        now = self._clock()
        lease = {"owner": self._owner, "host": self._host}

        def work(tx: Tx) -> None:
            sql.add_lease(tx, **lease, step_slots=self._step_slots, now=now, until=now + sql.LEASE_MS)

        self._database.write(work, lock_key=sql.lease_lock_key(self._owner))
        for thread in self._threads:
            thread.start()

    def other_worker_host(self) -> str | None:
        """Returns the host of another process that executes runs of this database and renews its lease, if any.

        Takes six seconds where an earlier process has left a lease, which nobody renews.
        """
        end = time.monotonic() + OTHER_WORKER_HOST_SECONDS
        first = self._others()
        while first and time.monotonic() < end and not self._ended.wait(WATCHED_EVERY_SECONDS):
            for owner, (host, until) in self._others().items():
                if until > first.setdefault(owner, (host, until))[1]:
                    return host
        return None

    def _others(self) -> dict[str, tuple[str, int]]:
        now, rows = self._clock(), self._database.read(sql.leases)
        others = [row for row in rows if row.owner != self._owner and row.lease_until > now]
        return {row.owner: (row.host, row.lease_until) for row in others}

    def drain(self) -> None:
        """Marks the lease as draining: the process takes no new segments and goes on with its present ones."""
        self._draining = True
        self._renew()

    def stop(self) -> None:
        """Gives up the lease, once no segment is executed any more. Idempotent."""
        self._ended.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()
        try:
            lock_key = sql.lease_lock_key(self._owner)
            self._database.write(lambda tx: sql.remove_lease(tx, self._owner), lock_key=lock_key)
        except Exception as error:  # noqa: BLE001 - unrenewed, the lease ends by itself
            level = logging.DEBUG if is_logged(error) else logging.WARNING
            _LOG.log(level, "The lease of %s could not be given back", self._owner, exc_info=error)

    def _renew_forever(self) -> None:
        pause = RENEWED_EVERY_SECONDS
        while not self._ended.wait(pause):
            # A try may take half of the time until the next.
            pause = RENEWED_EVERY_SECONDS if self._renew() else RETRIED_AFTER_SECONDS

    def _watch(self) -> None:
        """Watches for a lost lease, on its own thread because the renewing thread may wait long for the database."""
        while not self._ended.wait(WATCHED_EVERY_SECONDS):
            if self._lost or self._overdue():
                metrics.LEASES_LOST.add()
                _LOG.error("The lease of %s was lost; its steps are killed", self._owner)
                self._on_lost()
                return

    def _overdue(self) -> bool:
        return self._steady() - self._renewed > GIVEN_UP_AFTER_SECONDS

    def _renew(self) -> bool:
        """Renews the lease, unless it is overdue and others may have removed it; returns False after a failure."""
        # One renewal at a time, so that an earlier one cannot overwrite a later one's record.
        with self._renewing:
            began = self._steady()
            if self._lost or self._overdue():
                self._lost = True
                return False
            try:
                until = self._clock() + sql.LEASE_MS
                renewed = self._database.write(
                    lambda tx: sql.renew_lease(
                        tx, self._owner, until, draining=self._draining, room=max(0, self._room())
                    ),
                    lock_key=sql.lease_lock_key(self._owner),
                )
            except Exception as error:  # noqa: BLE001 - the cause may pass before the lease ends
                metrics.LEASE_RENEWALS.add("failed")
                self._renewals.failed(error)
                return False
            self._renewals.succeeded()
            metrics.LEASE_RENEWALS.add("renewed" if renewed else "failed")
            if renewed:
                self._renewed = began
            else:
                self._lost = True
            return renewed
