"""SQL of an executing segment: its run, steps and child runs; states of steps, counters, warnings, manifest."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from sqlalchemy import BindParameter, bindparam, literal_column, select, update

from backend.common import json_text
from backend.common.states import SegmentState, StepStatus
from backend.runtime.execution.fan_out_sql import ItemCounts
from backend.storage.database import Tx
from backend.storage.statements import Command, Query, ScalarQuery, select_row
from backend.storage.tables.runs import runs
from backend.storage.tables.segments import StepRow, segments, steps


class ExecutedRunRow(NamedTuple):
    """The run of a segment that is being executed, with the segment's ordinal."""

    run_id: str
    key_id: str
    workflow_id: str
    version: int
    started_at: int | None
    cancel_requested_at: int | None
    max_run_hours: float | None
    parameters: str | None
    input_text: str | None
    inputs_manifest: str | None
    pii_policy: str
    pii_redaction: str | None
    client_reference: str | None
    resumed_from: str | None
    ordinal: int
    state: str


class CompletedStepRow(NamedTuple):
    """Value of a completed step as JSON text, and the numbers of its files and its fan-out's items."""

    value: str
    files_count: int | None
    items_total: int | None
    items_completed: int | None
    items_failed: int | None

    @property
    def items(self) -> ItemCounts | None:
        """Item counts; None if the step was no fan-out."""
        if self.items_total is None:
            return None
        return ItemCounts(self.items_total, self.items_completed or 0, self.items_failed or 0)


class RunFactsRow(NamedTuple):
    """The columns of a run that expressions of its steps see; `labels` is JSON text."""

    run_id: str
    created_at: int
    triggered_by: str
    client_reference: str | None
    labels: str
    version: int


class DispatchedRow(NamedTuple):
    """A queued segment that was dispatched to the engine: how often, and the depth of its run below its top parent."""

    segment_id: str
    hand_overs: int
    depth: int


class ChildRow(NamedTuple):
    """Status, error and result of a child run."""

    run_id: str
    key_id: str
    status: str
    error_code: str | None
    error_message: str | None
    result: str | None
    result_error_code: str | None
    result_output_id: str | None
    data_purged_at: int | None
    redaction_state: str


_SEGMENT: Final[BindParameter[str]] = bindparam("of_segment_id")
_RUN: Final[BindParameter[str]] = bindparam("of_run_id")

_RUN_OF_SEGMENT = Query(
    ExecutedRunRow,
    select_row(ExecutedRunRow, runs, segments)
    .join(segments, segments.c.run_id == runs.c.run_id)
    .where(segments.c.segment_id == _SEGMENT),
)
_DISPATCHED = Query(
    DispatchedRow,
    select_row(DispatchedRow, segments, runs)
    .join(runs, runs.c.run_id == segments.c.run_id)
    .where(
        # Literal text, so that the planner can use the partial index over open segments.
        segments.c.state != literal_column(f"'{SegmentState.ENDED}'"),
        segments.c.state == literal_column(f"'{SegmentState.QUEUED}'"),
        segments.c.handed_over_at.is_not(None),
    )
    .order_by(segments.c.handed_over_at, segments.c.segment_id),
)
_RUN_FACTS = Query(RunFactsRow, select_row(RunFactsRow, runs).where(runs.c.run_id == _RUN))
_STEPS = Query(StepRow, select_row(StepRow, steps).where(steps.c.run_id == _RUN).order_by(steps.c.position))
_CHILD = Query(ChildRow, select_row(ChildRow, runs).where(runs.c.run_id == _RUN))
_COMPLETED_STEP = Query(
    CompletedStepRow,
    select_row(CompletedStepRow, steps).where(
        steps.c.run_id == _RUN,
        steps.c.step == bindparam("of_step"),
        steps.c.status == literal_column(f"'{StepStatus.COMPLETED}'"),
    ),
)
_STEP_COLUMNS: Final = (
    "status",
    "segment_id",
    "attempt",
    "started_at",
    "finished_at",
    "error_code",
    "error_message",
    "value",
    "files_count",
    "reused_from",
    "items_total",
    "items_completed",
    "items_failed",
    "items_from",
)
_SAVE_STEP = Command(
    update(steps)
    .where(steps.c.run_id == _RUN, steps.c.position == bindparam("at_position"))
    .values({name: bindparam(f"new_{name}") for name in _STEP_COLUMNS})
)
_COUNTED: Final = ("steps_completed", "steps_failed", "steps_skipped", "approvals_pending")
_COUNT = Command(
    update(runs)
    .where(runs.c.run_id == _RUN)
    .values({name: runs.c[name] + bindparam(f"more_{name}") for name in _COUNTED})
)
_WARNINGS = ScalarQuery[str](select(runs.c.warnings).where(runs.c.run_id == _RUN))
_SET_WARNINGS = Command(update(runs).where(runs.c.run_id == _RUN).values(warnings=bindparam("new_warnings")))
_SET_MANIFEST = Command(update(runs).where(runs.c.run_id == _RUN).values(inputs_manifest=bindparam("manifest")))


def dispatched(tx: Tx) -> list[DispatchedRow]:
    """Returns queued segments that are dispatched to the engine, the oldest dispatch first."""
    return tx.all(_DISPATCHED)


def run_of_segment(tx: Tx, segment_id: str) -> ExecutedRunRow:
    """Returns the run of a segment, which must exist."""
    return tx.one(_RUN_OF_SEGMENT, of_segment_id=segment_id)


def find_run_of_segment(tx: Tx, segment_id: str) -> ExecutedRunRow | None:
    """Returns the run of a segment, or None."""
    return tx.first(_RUN_OF_SEGMENT, of_segment_id=segment_id)


def run_facts(tx: Tx, run_id: str) -> RunFactsRow:
    """Returns the columns of a run that expressions see."""
    return tx.one(_RUN_FACTS, of_run_id=run_id)


def steps_of(tx: Tx, run_id: str) -> list[StepRow]:
    """Returns the steps of a run in the order of the definition."""
    return tx.all(_STEPS, of_run_id=run_id)


def completed_step(tx: Tx, run_id: str, step: str) -> CompletedStepRow | None:
    """Returns value and counts of a completed step; None if the step did not complete or the run was erased."""
    return tx.first(_COMPLETED_STEP, of_run_id=run_id, of_step=step)


def child(tx: Tx, run_id: str) -> ChildRow:
    """Returns the row of a child run, which must exist."""
    return tx.one(_CHILD, of_run_id=run_id)


def save_steps(tx: Tx, run_id: str, rows: Iterable[Mapping[str, object]]) -> None:
    """Writes the states of steps; a row has `position` and every changing column."""
    tx.many(
        _SAVE_STEP,
        [
            {"of_run_id": run_id, "at_position": row["position"]} | {f"new_{name}": row[name] for name in _STEP_COLUMNS}
            for row in rows
        ],
    )


def add_to_counters(tx: Tx, run_id: str, more: Mapping[str, int]) -> None:
    """Adds to the run's counters."""
    tx.announce(run_id)
    tx.enqueue(_COUNT, of_run_id=run_id, **{f"more_{name}": more.get(name, 0) for name in _COUNTED})


def set_manifest(tx: Tx, run_id: str, manifest: str) -> None:
    """Writes the manifest of the inputs that were copied."""
    tx.announce(run_id)
    tx.enqueue(_SET_MANIFEST, of_run_id=run_id, manifest=manifest)


def add_warnings(tx: Tx, run_id: str, new: Sequence[str]) -> None:
    """Adds new warnings to an unfinished run, each text once, because later segments may repeat them."""
    tx.announce(run_id)
    warnings = json_text.parse(tx.scalar_one(_WARNINGS, of_run_id=run_id))
    tx.enqueue(_SET_WARNINGS, of_run_id=run_id, new_warnings=json_text.write(list(dict.fromkeys([*warnings, *new]))))
