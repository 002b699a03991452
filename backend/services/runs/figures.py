"""Statistics of ended runs as messages: a workflow's newest runs, the last days, and the newest failures."""

import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Final

from google.protobuf.duration_pb2 import Duration

from backend.common.clock import DAY_MS, utc_day
from backend.common.states import RunStatus, StepStatus
from backend.services.dependencies import Services
from backend.services.runs import figures_sql
from backend.services.runs.figures_sql import DayRow, EndedRow, EndedStepRow
from backend.storage.database import Tx
from contract.times import set_milliseconds, to_timestamp
from workflow_api.v1.run_lists_pb2 import FailedRun, NewestFailures, StepFigures, WorkflowFigures
from workflow_api.v1.runs_pb2 import RunError

DAYS: Final = 30
MOST_RUNS: Final = 2_000
MOST_STEP_RUNS: Final = 200
MOST_STEPS: Final = 50


def workflow_figures(services: Services, workflow_id: str) -> WorkflowFigures:
    """Returns the figures of a workflow's newest runs of the last 30 days."""
    since = services.clock() - DAYS * DAY_MS

    def work(tx: Tx) -> tuple[list[EndedRow], list[EndedStepRow]]:
        return (
            figures_sql.ended_runs(tx, workflow_id, since, MOST_RUNS + 1),
            figures_sql.ended_steps(tx, workflow_id, since, MOST_STEP_RUNS),
        )

    every, steps = services.database.snapshot(work)
    counted = every[:MOST_RUNS]
    statuses = Counter(row.status for row in counted)
    message = WorkflowFigures(
        ended=len(counted),
        more=len(every) > len(counted),
        completed=statuses[RunStatus.COMPLETED],
        failed=statuses[RunStatus.FAILED],
        cancelled=statuses[RunStatus.CANCELLED],
        step_runs=min(len(every), MOST_STEP_RUNS),
        steps=_steps(steps),
    )
    _set_durations(message, counted)
    return message


def _steps(rows: Iterable[EndedStepRow]) -> list[StepFigures]:
    of_steps: dict[str, list[EndedStepRow]] = {}
    for row in rows:
        of_steps.setdefault(row.step, []).append(row)
    return [_of_step(step, found) for step, found in list(of_steps.items())[:MOST_STEPS]]


def _of_step(step: str, rows: Sequence[EndedStepRow]) -> StepFigures:
    message = StepFigures(
        step=step,
        name=rows[0].name,
        ended=len(rows),
        failed=sum(row.status == StepStatus.FAILED for row in rows),
        retried=sum(row.attempt > 1 for row in rows),
    )
    _set_durations(message, rows)
    return message


def _set_durations(message: WorkflowFigures | StepFigures, rows: Iterable[EndedRow | EndedStepRow]) -> None:
    taken = sorted(
        row.finished_at - row.started_at for row in rows if row.started_at is not None and row.finished_at is not None
    )
    if taken:
        _set_rank(message.median, taken, 50)
        _set_rank(message.p95, taken, 95)


def _set_rank(field: Duration, values: Sequence[int], percent: int) -> None:
    """Sets a percentile by nearest rank: of 20 values the 95th percentile is the 19th."""
    set_milliseconds(field, values[-(-len(values) * percent // 100) - 1])


def newest_failures(services: Services, limit: int, workflow_ids: frozenset[str] | None) -> NewestFailures:
    """Returns the newest failed runs of yesterday and today, in UTC, of all or of some workflows."""
    since = (utc_day(services.clock()) - 1) * DAY_MS
    rows = services.database.read(lambda tx: figures_sql.newest_failed(tx, since, limit + 1, workflow_ids))
    items = [
        FailedRun(
            run_id=row.run_id,
            workflow_id=row.workflow_id,
            workflow_name=row.workflow_name,
            failed_at=to_timestamp(row.finished_at),
            error=RunError(code=row.error_code or "", message=row.error_message),
        )
        for row in rows[:limit]
    ]
    return NewestFailures(items=items, more=len(rows) > limit, since=to_timestamp(since))


NUMBER_OF_DAYS: Final = 30

_FRESH_MS: Final = 10_000
# For ten minutes after midnight, a process whose clock is behind may still end a run on the day before.
_SETTLED_MS: Final = 600_000
_WAIT_SECONDS: Final = 0.02
"""Seconds that a reader waits for a count, which takes longer if hundreds of thousands of runs end in a day."""


class RunDays:
    """Figures of the last 30 UTC days: past days are counted once and stored, today at most every ten seconds."""

    def __init__(self, services: Services, wait_seconds: float = _WAIT_SECONDS) -> None:
        self._database = services.database
        self._clock = services.clock
        self._wait_seconds = wait_seconds
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="run-days")
        self._lock = threading.Lock()
        self._counting: Future[None] | None = None
        self._counted: tuple[int, list[DayRow]] = (-_FRESH_MS, [])

    def newest(self) -> tuple[list[DayRow], bool]:
        """Returns the figures of the last 30 UTC days, today last, and whether newer ones are being counted.

        Before the first count has ended, the list may be empty.
        """
        with self._lock:
            now = self._clock()
            at, rows = self._counted
            if at <= now < at + _FRESH_MS:
                return rows, False
            counting = self._counting
            if counting is None or counting.done():
                counting = self._counting = self._thread.submit(self._count, now)
        wait({counting}, self._wait_seconds)
        if counting.done():
            counting.result()
        with self._lock:
            return self._counted[1], not counting.done()

    def close(self) -> None:
        """Waits for the count under way; may be repeated."""
        self._thread.shutdown()

    def _count(self, now: int) -> None:
        days = range(utc_day(now) - NUMBER_OF_DAYS + 1, utc_day(now) + 1)

        def work(tx: Tx) -> tuple[dict[int, DayRow], dict[int, DayRow]]:
            stored = figures_sql.stored_days(tx, days[0])
            return stored, {day: _count_day(tx, day) for day in days if day not in stored or not _is_over(day, now)}

        stored, counted = self._database.snapshot(work)
        over = [row for day, row in counted.items() if _is_over(day, now)]
        # Runs may still end on these days, which a process with a clock ahead has counted too early.
        early = [day for day in stored if not _is_over(day, now)]
        if over or early:

            def change(tx: Tx) -> None:
                figures_sql.delete_days(tx, early)
                figures_sql.store_days(tx, over)

            self._database.write(change, lock_key="run_days")
        with self._lock:
            self._counted = now, [counted.get(day) or stored[day] for day in days]


def _is_over(day: int, now: int) -> bool:
    return (day + 1) * DAY_MS + _SETTLED_MS <= now


def _count_day(tx: Tx, day: int) -> DayRow:
    return figures_sql.count_day(tx, day, day * DAY_MS, (day + 1) * DAY_MS)
