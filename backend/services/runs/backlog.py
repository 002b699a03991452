"""Metrics of the waiting work of the whole deployment, counted in the database."""

import logging
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, NamedTuple

from backend.common import metrics, workflow_metrics
from backend.common.states import RUN_IN_FLIGHT
from backend.services.dependencies import Services
from backend.services.runs.backlog_sql import BacklogRow, RunsInFlightRow, backlog, runs_in_flight
from backend.services.runs.waiting_runs import WaitingRuns, waiting_runs
from backend.services.runs.waiting_runs_sql import WaitingRow
from backend.storage.database import Tx
from backend.storage.outage import RepeatedDatabaseWork
from telemetry import Family

_SECONDS: Final = 2.0

_LOG = logging.getLogger(__name__)


class _Read(NamedTuple):
    """The backlog at a time, in milliseconds since the epoch; `runs` are empty unless workflows are named."""

    row: BacklogRow
    runs: Sequence[RunsInFlightRow]
    waiting: WaitingRuns
    now: int


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
        self._query: Future[_Read] | None = None

    def measured(self) -> list[Family]:
        """Returns the metric families, or empty ones and `DATABASE_UP` 0 if the database does not answer."""
        try:
            found = self._running_query().result(_SECONDS)
        except Exception as error:  # noqa: BLE001 - other metrics are served all the same
            self._reads.failed(error)
            return [metrics.DATABASE_UP.with_value(0), *_families(None)]
        self._reads.succeeded()
        return [metrics.DATABASE_UP.with_value(1), *_families(found), *(_named(found) if self._by_workflow else ())]

    def close(self) -> None:
        """Ends the thread of the queries."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _running_query(self) -> Future[_Read]:
        """Returns the query that is still running, or starts a new one."""
        with self._lock:
            if self._query is None or self._query.done():
                self._query = self._thread.submit(self._read)
            return self._query

    def _read(self) -> _Read:
        now = self._services.clock()
        # Workers renew their leases by the database's own time.
        lease_now = self._services.database.now()

        def read(tx: Tx) -> _Read:
            runs = runs_in_flight(tx) if self._by_workflow else []
            return _Read(backlog(tx, lease_now), runs, waiting_runs(tx, now), now)

        return self._services.database.read(read)


def _families(read: _Read | None) -> list[Family]:
    """Returns the metric families of a backlog; without one, families without values."""
    if read is None:
        gauges = (metrics.RUNS, metrics.SEGMENTS_QUEUED, metrics.OLDEST_QUEUED, metrics.APPROVALS, metrics.SWEEPS)
        more = (metrics.REMOVALS, metrics.PUBLICATIONS, metrics.WEBHOOKS, metrics.WORKERS, metrics.WORKERS_SLOTS)
        return [gauge.with_values({}) for gauge in (*gauges, *more, metrics.START_WAIT)]
    row, wait = read.row, read.waiting.longest_start_wait()
    oldest = 0.0 if row.oldest_queued_at is None else _seconds_since(row.oldest_queued_at, read.now)
    return [
        metrics.RUNS.with_values({(status,): getattr(row, f"runs_{status}") for status in RUN_IN_FLIGHT}),
        metrics.SEGMENTS_QUEUED.with_values(
            {("waiting",): row.segments_waiting, ("handed_over",): row.segments_handed_over}
        ),
        metrics.OLDEST_QUEUED.with_value(oldest),
        metrics.START_WAIT.with_values({} if wait is None else {(): wait / 1000}),
        metrics.APPROVALS.with_value(row.approvals),
        metrics.SWEEPS.with_value(row.sweeps),
        metrics.REMOVALS.with_values({("run",): row.removals_of_runs, ("object",): row.removals_of_objects}),
        metrics.PUBLICATIONS.with_value(row.publications),
        metrics.WEBHOOKS.with_value(row.webhook_deliveries),
        metrics.WORKERS.with_value(row.workers),
        metrics.WORKERS_SLOTS.with_value(row.worker_slots),
    ]


def _named(read: _Read) -> list[Family]:
    """Returns the metric families that name workflows and keys."""
    waiting: dict[tuple[str, str, str], WaitingRow] = {}
    for row in read.waiting.rows:
        name = (row.workflow_id, row.workflow_name, row.key_id)
        other = waiting.get(name, row._replace(queued=0))
        oldest = min(row.oldest_at, other.oldest_at)
        waiting[name] = row._replace(queued=row.queued + other.queued, oldest_at=oldest)
    waits = {key_id: read.waiting.start_wait(key_id) for key_id in {row.key_id for row in read.waiting.rows}}
    return [
        workflow_metrics.RUNS.with_values({run[:-1]: run.number for run in read.runs}),
        workflow_metrics.QUEUED.with_values({name: row.queued for name, row in waiting.items()}),
        workflow_metrics.OLDEST_QUEUED.with_values(
            {name: _seconds_since(row.oldest_at, read.now) for name, row in waiting.items()}
        ),
        workflow_metrics.START_WAIT.with_values(
            {(key_id,): wait / 1000 for key_id, wait in waits.items() if wait is not None}
        ),
    ]


def _seconds_since(at: int, now: int) -> float:
    return max(0, now - at) / 1000
