"""What there is to do in the whole deployment, as one process of it tells an operator."""

import logging
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from backend import metrics
from backend.run_status import IN_FLIGHT
from backend.runtime.scheduling.backlog_sql import BacklogRow, backlog
from backend.services import Services
from telemetry import Family

_SECONDS: Final = 2.0

_LOG = logging.getLogger(__name__)


class Backlog:
    """Asks the database when it is asked, waits for at most two seconds, and never asks twice at once."""

    def __init__(self, services: Services) -> None:
        self._services = services
        # One thread for all questions, as a database may keep a connection for each.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="backlog")
        self._lock = threading.Lock()
        self._asking: Future[tuple[BacklogRow, int]] | None = None

    def measured(self) -> list[Family]:
        """What there is to do; only that the database is away where it is."""
        try:
            row, now = self._asked().result(_SECONDS)
        except Exception:  # noqa: BLE001 - whatever keeps it from answering, other numbers are told
            _LOG.info("the database could not say what there is to do", exc_info=True)
            found = [metrics.DATABASE_UP.now(0), *_families(None, 0)]
        else:
            found = [metrics.DATABASE_UP.now(1), *_families(row, now)]
        return found

    def close(self) -> None:
        """Asks nothing any more."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _asked(self) -> Future[tuple[BacklogRow, int]]:
        """The question under way, or a new one: one that is still open is waited for the next time."""
        with self._lock:
            if self._asking is None or self._asking.done():
                self._asking = self._thread.submit(self._ask)
            return self._asking

    def _ask(self) -> tuple[BacklogRow, int]:
        now = self._services.clock()
        return self._services.database.read(lambda tx: backlog(tx, now)), now


def _families(row: BacklogRow | None, now: int) -> list[Family]:
    """Without a row, the names alone."""
    if row is None:
        gauges = (metrics.RUNS, metrics.SEGMENTS_QUEUED, metrics.OLDEST_QUEUED, metrics.APPROVALS, metrics.SWEEPS)
        more = (metrics.REMOVALS, metrics.PUBLICATIONS, metrics.WORKERS, metrics.WORKERS_SLOTS)
        return [gauge.of({}) for gauge in (*gauges, *more)]
    oldest = 0.0 if row.oldest_queued_at is None else max(0, now - row.oldest_queued_at) / 1000
    return [
        metrics.RUNS.of({(status,): getattr(row, f"runs_{status}") for status in IN_FLIGHT}),
        metrics.SEGMENTS_QUEUED.of({("waiting",): row.segments_waiting, ("handed_over",): row.segments_handed_over}),
        metrics.OLDEST_QUEUED.now(oldest),
        metrics.APPROVALS.now(row.approvals),
        metrics.SWEEPS.now(row.sweeps),
        metrics.REMOVALS.of({("run",): row.removals_of_runs, ("object",): row.removals_of_objects}),
        metrics.PUBLICATIONS.now(row.publications),
        metrics.WORKERS.now(row.workers),
        metrics.WORKERS_SLOTS.now(row.worker_slots),
    ]
