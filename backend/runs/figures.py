"""Figures of a workflow: how its newest runs ended, how long they took, and the same of its steps."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from google.protobuf.duration_pb2 import Duration

from backend.clock import DAY_MS
from backend.run_status import RunStatus
from backend.runs import figures_sql
from backend.runs.figures_sql import EndedRow, EndedStepRow
from backend.services import Services
from backend.step_status import StepStatus
from backend.storage.database import Tx
from contract.times import set_milliseconds
from workflow_api.v1.run_lists_pb2 import StepFigures, WorkflowFigures

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
    """Sets the nearest rank: of 20 values the 95th percentile is the 19th."""
    set_milliseconds(field, values[-(-len(values) * percent // 100) - 1])
