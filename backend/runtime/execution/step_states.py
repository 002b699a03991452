"""The states of a run's steps in its executing segment, and the unit of work that gathers their changes."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from backend.common import json_text
from backend.common.clock import to_text
from backend.common.ids import new_id
from backend.common.states import ApprovalState, StepStatus
from backend.runtime.execution import dag, sql
from backend.services.outputs.sql import NewOutput, StepFile, add_outputs, add_shared_files
from backend.services.runs import redaction_manifest_sql
from backend.services.runs.change_records import NewEvent
from backend.services.runs.lifecycle import append_events, decision_event, decision_value
from backend.services.runs.lifecycle_sql import add_approvals
from backend.services.runs.redaction_manifest_sql import STEPS, StageCounts
from backend.services.workflows.resolved_workflow import ResolvedStep
from backend.storage.database import Tx
from backend.storage.tables.files import SharedFileRow
from backend.storage.tables.segments import ApprovalRow, StepRow
from contract.failure_codes import INVARIANT_BLOCKED, NODE_FAILED
from redaction.counts import Counts

Row = dict[str, Any]

_PENDING: Final = ApprovalState.PENDING.value


@dataclass(slots=True)
class UnitOfWork:
    """Events in their order, and the rows that change with them; `counts` are added to the run's counters.

    `redacted` are counts of sweeps, for the run's redaction manifest; `warnings` are added to the run's.
    """

    events: list[NewEvent] = field(default_factory=list)
    steps: dict[str, Row] = field(default_factory=dict)
    files: list[StepFile] = field(default_factory=list)
    approvals: list[Row] = field(default_factory=list)
    counts: defaultdict[str, int] = field(default_factory=partial(defaultdict, int))
    redacted: list[StageCounts] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.events or self.steps or self.files or self.approvals or self.redacted)

    def event(self, event_type: str, step: str | None = None, /, **data: Any) -> None:
        """Adds an event."""
        self.events.append(NewEvent(event_type, step, data))

    def write(self, tx: Tx, run_id: str, segment_id: str, at: int) -> None:
        """Writes everything, events first.

        Raises:
            SegmentEndedError: the segment does not run; nothing was written.
        """
        append_events(tx, segment_id, at, self.events)
        sql.save_steps(tx, run_id, self.steps.values())
        add_approvals(tx, self.approvals)
        add_outputs(tx, [file for file in self.files if isinstance(file, NewOutput)], at)
        add_shared_files(tx, [file for file in self.files if isinstance(file, SharedFileRow)])
        if self.counts:
            sql.count(tx, run_id, self.counts)
        if self.warnings:
            sql.add_warnings(tx, run_id, self.warnings)
        for found in self.redacted:
            redaction_manifest_sql.add_counts(tx, run_id, found)


class StepStates:
    """The steps of one run; `steps` and `rows`, those of the table, are in the order of the definition."""

    def __init__(self, steps: Sequence[ResolvedStep], run_id: str, segment_id: str, rows: Sequence[StepRow]) -> None:
        self._run_id = run_id
        self._segment_id = segment_id
        self._steps = {step.step: step for step in steps}
        self._rows: dict[str, Row] = {row.step: row._asdict() for row in rows}
        self._changes = UnitOfWork()

    @property
    def changes(self) -> UnitOfWork:
        """The changes that are not recorded yet; callers may add to them."""
        return self._changes

    def take_changes(self) -> UnitOfWork:
        """Returns the changes to record, and starts a new unit of work."""
        taken, self._changes = self._changes, UnitOfWork()
        return taken

    def plan(self) -> dag.Plan:
        """Returns the plan for the present statuses."""
        return dag.plan(tuple(self._steps.values()), self._status())

    def terms(self, step: str) -> ResolvedStep:
        """Returns the terms of a step, from the definition."""
        return self._steps[step]

    def value(self, step: str) -> str | None:
        """Returns the return value of a completed step as JSON text; None where the step has not completed."""
        row = self._rows[step]
        return row["value"] if row["status"] == StepStatus.COMPLETED else None

    def needs_of(self, step: str) -> dict[str, Any]:
        """Returns the return values of the steps that a step needs."""
        return {need: json_text.shared(self._rows[need]["value"] or "null") for need in self._steps[step].needs}

    def needs_as_text(self, step: str) -> dict[str, str]:
        """Returns the values of the steps that a step needs as JSON text, `null` for one that has none."""
        return {need: self._rows[need]["value"] or "null" for need in self._steps[step].needs}

    def attempt(self, step: str) -> int:
        """Returns how often a step has begun."""
        return int(self._rows[step]["attempt"])

    def begin(self, step: str, at: int) -> None:
        """Begins an agent step in this segment."""
        row = self._move(step, StepStatus.RUNNING, started_at=at, segment_id=self._segment_id)
        row["attempt"] += 1
        self._changes.event("step.started", step, attempt=row["attempt"])

    def complete(
        self,
        step: str,
        value: str,
        files: Sequence[StepFile],
        at: int,
        warnings: Sequence[str] = (),
        swept: Counts | None = None,
    ) -> None:
        """Completes a step with a value, as JSON text, files whose objects are stored, and warnings for the run.

        `swept` are the counts of the sweep of what it hands on, where there was one.
        """
        self._take_over(step, value, files, at)
        if swept is not None:
            self._changes.event("redaction.completed", step, stage=STEPS, files=swept.files, values=swept.values)
        outputs = sum(isinstance(file, NewOutput) for file in files)
        self._changes.event("step.completed", step, outputs=outputs)
        for message in warnings:
            self._changes.event("warning", step, message=message)
        self._changes.warnings += warnings

    @property
    def to_reuse(self) -> dict[str, str]:
        """Returns the ended run of each pending step that is to be reused, by handle."""
        return {
            step: row["reused_from"]
            for step, row in self._rows.items()
            if row["reused_from"] is not None and row["status"] == StepStatus.PENDING
        }

    def reuse(self, step: str, value: str, files: Sequence[StepFile], at: int) -> None:
        """Completes a step that is to be reused with the value of the ended run, and copies of its files."""
        self._take_over(step, value, files, at)
        outputs = sum(isinstance(file, NewOutput) for file in files)
        self._changes.event("step.reused", step, run_id=self._rows[step]["reused_from"], outputs=outputs)

    def execute_anew(self, step: str, why: str) -> None:
        """Has a step executed that was to be reused; a warning of the run says why."""
        self._move(step, StepStatus.PENDING, reused_from=None)
        message = f"Step '{step}' is executed again: {why}"
        self._changes.warnings.append(message)
        self._changes.event("warning", step, message=message)

    def retry(self, step: str, failure_type: str, message: str, retry_at: int) -> None:
        """Records a failed attempt of a step that will be retried: until then it is pending."""
        self._record_failure(step, failure_type, message, retry_at)
        self._move(step, StepStatus.PENDING, started_at=None)

    def fail(self, step: str, failure_type: str, message: str, at: int) -> None:
        """Fails a step that is not retried; an optional one leaves a warning."""
        self._record_failure(step, failure_type, message, None)
        self._move(step, StepStatus.FAILED, finished_at=at, error_code=NODE_FAILED, error_message=message)
        self._changes.counts["steps_failed"] += 1
        if self._steps[step].optional:
            self._changes.event("warning", step, message=_failed_warning(step))

    def settle(self, plan: dag.Plan) -> None:
        """Skips and blocks the steps that will never begin."""
        for step in plan.skip:
            self._move(step, StepStatus.SKIPPED)
        for step in plan.block:
            self._move(step, StepStatus.BLOCKED)
        for step in plan.skip:
            self._changes.counts["steps_skipped"] += 1
            self._changes.event("step.skipped", step, reason=self._unmet_reason(step))
            self._changes.event("warning", step, message=self._skipped_warning(step))
        for step in plan.block:
            self._rows[step].update(error_code=INVARIANT_BLOCKED, error_message=self._unmet_reason(step))

    def request_approvals(self, ask: Sequence[str], at: int) -> None:
        """Requests the approvals of these steps."""
        for step in ask:
            self._move(step, StepStatus.WAITING, started_at=at, segment_id=self._segment_id)["attempt"] += 1
            terms, approval_id = self._steps[step], new_id("apr")
            self._changes.approvals.append(
                {
                    "approval_id": approval_id,
                    "run_id": self._run_id,
                    "segment_id": self._segment_id,
                    "step": step,
                    "title": terms.title,
                    "instructions": terms.instructions,
                    "state": _PENDING,
                    "requested_at": at,
                }
            )
            self._changes.counts["approvals_pending"] += 1
            self._changes.event("approval.requested", step, approval_id=approval_id, title=terms.title)

    def decide(self, approval: ApprovalRow, comment: str | None, *, hand_on: bool) -> None:
        """Records a decision with this comment; with `hand_on`, other steps get it in place of the row's comment."""
        self._changes.events.append(decision_event(approval, comment=comment))
        if hand_on:
            row = self._rows[approval.step]
            row["value"] = decision_value(approval.state, comment)
            self._changes.steps[approval.step] = row

    def failure(self, plan: dag.Plan) -> tuple[str, str] | None:
        """Returns failure code and message of a run that cannot go on; None where it can."""
        if plan.failed is not None:
            return NODE_FAILED, f"Step '{plan.failed}' failed: {self._rows[plan.failed]['error_message']}"
        if plan.stuck is not None:
            if self._steps[plan.stuck].kind == "approval" and self._unmet_need(plan.stuck) is None:
                return INVARIANT_BLOCKED, f"The approval of step '{plan.stuck}' was rejected."
            return INVARIANT_BLOCKED, f"Step '{plan.stuck}' was blocked: {self._unmet_reason(plan.stuck)}"
        return None

    def warn(self, message: str) -> None:
        """Adds a warning of the run, and an event for it."""
        self._changes.warnings.append(message)
        self._changes.event("warning", message=message)

    def warnings(self) -> list[str]:
        """Returns a warning for each optional step that failed or was skipped; others are recorded already."""
        return [
            _failed_warning(step) if row["status"] == StepStatus.FAILED else self._skipped_warning(step)
            for step, row in self._rows.items()
            if row["status"] in {StepStatus.FAILED, StepStatus.SKIPPED}
        ]

    def _take_over(self, step: str, value: str, files: Sequence[StepFile], at: int) -> None:
        self._move(step, StepStatus.COMPLETED, finished_at=at, value=value, files_count=len(files))
        self._changes.files += files
        self._changes.counts["steps_completed"] += 1

    def _record_failure(self, step: str, failure_type: str, message: str, retry_at: int | None) -> None:
        self._changes.event(
            "step.failed",
            step,
            code=NODE_FAILED,
            type=failure_type,
            message=message,
            attempt=self.attempt(step),
            retry_at=None if retry_at is None else to_text(retry_at),
        )

    def _status(self) -> Mapping[str, str]:
        return {step: row["status"] for step, row in self._rows.items()}

    def _unmet_need(self, step: str) -> str | None:
        return dag.unmet_need(self._steps[step], self._status())

    def _unmet_reason(self, step: str) -> str:
        need = self._unmet_need(step)
        return f"It needs step '{need}', which is {self._rows[need]['status']}." if need else ""

    def _skipped_warning(self, step: str) -> str:
        return f"The optional step '{step}' was skipped. {self._unmet_reason(step)}"

    def _move(self, step: str, status: StepStatus, **columns: Any) -> Row:
        row = self._rows[step]
        row.update(columns, status=status.value)
        self._changes.steps[step] = row
        return row


def _failed_warning(step: str) -> str:
    return f"The optional step '{step}' failed."
