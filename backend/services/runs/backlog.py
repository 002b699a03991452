"""Metrics of the waiting work of the whole deployment, counted in the database."""

import logging
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from backend.common import metrics, workflow_metrics
from backend.common.states import RUN_IN_FLIGHT
from backend.services.dependencies import Services
from backend.services.runs.backlog_sql import BacklogRow, RunsInFlightRow, backlog, runs_in_flight
from backend.storage.database import Tx
from backend.storage.outage import RepeatedDatabaseWork
from telemetry import Family

_SECONDS: Final = 2.0

_LOG = logging.getLogger(__name__)


class Backlog:
    """Counts waiting work in the database, with one query at a time and a wait of at most two seconds."""

    def __init__(self, services: Services, *, by_workflow: bool) -> None:
        """Creates the counter; `by_workflow` also counts runs in flight by workflow and key."""
        self._services = services
        self._by_workflow = by_workflow
        # One thread for all queries, as a database may keep a connection for each thread.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="backlog")
        self._lock = threading.Lock()
        self._reads = RepeatedDatabaseWork(_LOG, "The backlog cannot be read", "The backlog is read again")
        self._query: Future[tuple[BacklogRow, list[RunsInFlightRow], int]] | None = None

    def measured(self) -> list[Family]:
        """Returns the metric families, or empty ones and `DATABASE_UP` 0 if the database does not answer."""
        try:
            row, runs, now = self._running_query().result(_SECONDS)
        except Exception as error:  # noqa: BLE001 - other metrics are served all the same
            self._reads.failed(error)
            found = [metrics.DATABASE_UP.with_value(0), *_families(None, 0)]
        else:
            self._reads.succeeded()
            found = [metrics.DATABASE_UP.with_value(1), *_families(row, now)]
            if self._by_workflow:
                found.append(workflow_metrics.RUNS.with_values({run[:-1]: run.number for run in runs}))
        return found

    def close(self) -> None:
        """Ends the thread of the queries."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _running_query(self) -> Future[tuple[BacklogRow, list[RunsInFlightRow], int]]:
        """Returns the query that is still running, or starts a new one."""
        with self._lock:
            if self._query is None or self._query.done():
                self._query = self._thread.submit(self._read)
            return self._query

    def _read(self) -> tuple[BacklogRow, list[RunsInFlightRow], int]:
        now = self._services.clock()
        # Workers renew their leases by the database's own time.
        lease_now = self._services.database.now()

        def read(tx: Tx) -> tuple[BacklogRow, list[RunsInFlightRow], int]:
            return backlog(tx, lease_now), runs_in_flight(tx) if self._by_workflow else [], now

        return self._services.database.read(read)


def _families(row: BacklogRow | None, now: int) -> list[Family]:
    """Returns the metric families of a row; without a row, families without values."""
    if row is None:
        gauges = (metrics.RUNS, metrics.SEGMENTS_QUEUED, metrics.OLDEST_QUEUED, metrics.APPROVALS, metrics.SWEEPS)
        more = (metrics.REMOVALS, metrics.PUBLICATIONS, metrics.WEBHOOKS, metrics.WORKERS, metrics.WORKERS_SLOTS)
        return [gauge.with_values({}) for gauge in (*gauges, *more)]
    oldest = 0.0 if row.oldest_queued_at is None else max(0, now - row.oldest_queued_at) / 1000
    return [
        metrics.RUNS.with_values({(status,): getattr(row, f"runs_{status}") for status in RUN_IN_FLIGHT}),
        metrics.SEGMENTS_QUEUED.with_values(
            {("waiting",): row.segments_waiting, ("handed_over",): row.segments_handed_over}
        ),
        metrics.OLDEST_QUEUED.with_value(oldest),
        metrics.APPROVALS.with_value(row.approvals),
        metrics.SWEEPS.with_value(row.sweeps),
        metrics.REMOVALS.with_values({("run",): row.removals_of_runs, ("object",): row.removals_of_objects}),
        metrics.PUBLICATIONS.with_value(row.publications),
        metrics.WEBHOOKS.with_value(row.webhook_deliveries),
        metrics.WORKERS.with_value(row.workers),
        metrics.WORKERS_SLOTS.with_value(row.worker_slots),
    ]
