"""The states of a run's steps in its executing segment, and the unit of work that gathers their changes."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from backend.common import json_text
from backend.common.clock import to_text
from backend.common.ids import new_id
from backend.common.json_text import JsonObject
from backend.common.states import APPROVAL_DECIDED, STEP_UNFINISHED, ApprovalState, DeadlineAction, StepStatus
from backend.runtime.execution import dag, fan_out_sql, sql
from backend.runtime.execution.fan_out_sql import ItemCounts
from backend.runtime.execution.step_outcomes import StepPause
from backend.services.model_usage import sql as model_usage_sql
from backend.services.model_usage.sql import AttemptUsage
from backend.services.outputs.sql import NewOutput, StepFile, add_outputs, add_shared_files
from backend.services.runs import redaction_manifest_sql
from backend.services.runs.change_records import NewEvent
from backend.services.runs.deadlines import end_columns
from backend.services.runs.lifecycle import Statement, append_events, decision_value, settled_events
from backend.services.runs.lifecycle_sql import add_approvals
from backend.services.runs.redaction_manifest_sql import STEPS, StageCounts
from backend.services.workflows.resolved_workflow import ApprovalSettings, Phase, ResolvedStep
from backend.storage.database import Tx
from backend.storage.tables.files import SharedFileRow
from backend.storage.tables.segments import ApprovalRow, StepRow
from contract.failure_codes import INVARIANT_BLOCKED, NODE_FAILED
from redaction.counts import Counts

Row = JsonObject

_PENDING: Final = ApprovalState.PENDING.value
_SETTINGS_OF_CALL_APPROVALS: Final = ApprovalSettings(
    deadline_hours=168,
    on_deadline=DeadlineAction.REJECT,
    remind_hours=None,
    approvers=None,
    form_schema=None,
    summary=None,
)
"""Settings of approvals of tool calls, for which no manifest has any."""


@dataclass(slots=True)
class UnitOfWork:
    """Changes to write in one transaction: events in order and changed rows; `counts` are added to the run's counters.

    `redacted` are counts of sweeps for the run's redaction manifest. `warnings` are added to the run's warnings.
    `ended_fan_outs` are completed steps whose item rows are deleted. `conversations` are those of steps that wait for
    a person, None for steps that have gone on.
    """

    events: list[NewEvent] = field(default_factory=list)
    steps: dict[str, Row] = field(default_factory=dict)
    files: list[StepFile] = field(default_factory=list)
    approvals: list[Row] = field(default_factory=list)
    counts: defaultdict[str, int] = field(default_factory=partial(defaultdict, int))
    redacted: list[StageCounts] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    ended_fan_outs: list[str] = field(default_factory=list)
    model_usage: list[AttemptUsage] = field(default_factory=list)
    conversations: dict[str, str | None] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.events or self.steps or self.files or self.approvals or self.redacted or self.model_usage)

    def add_event(self, event_type: str, step: str | None = None, /, **data: object) -> None:
        """Adds an event."""
        self.events.append(NewEvent(event_type, step, data))

    def write(self, tx: Tx, run_id: str, segment_id: str, at: int) -> None:
        """Writes everything, events first.

        Raises:
            SegmentEndedError: the segment does not run; nothing was written.
        """
        append_events(tx, segment_id, at, self.events)
        sql.save_steps(tx, run_id, self.steps.values())
        if self.conversations:
            sql.save_conversations(tx, run_id, self.conversations)
        add_approvals(tx, self.approvals)
        add_outputs(tx, [file for file in self.files if isinstance(file, NewOutput)], at)
        add_shared_files(tx, [file for file in self.files if isinstance(file, SharedFileRow)])
        if self.counts:
            sql.add_to_counters(tx, run_id, self.counts)
        if self.warnings:
            sql.add_warnings(tx, run_id, self.warnings)
        for found in self.redacted:
            redaction_manifest_sql.add_counts(tx, run_id, found)
        for step in self.ended_fan_outs:
            fan_out_sql.remove_items(tx, run_id, step)
        model_usage_sql.record(tx, run_id, at, self.model_usage)


class StepStates:
    """The states of one run's steps; `steps` and `rows`, from the table, are in the order of the definition."""

    def __init__(self, steps: Sequence[ResolvedStep], run_id: str, segment_id: str, rows: Sequence[StepRow]) -> None:
        self._run_id = run_id
        self._segment_id = segment_id
        self._steps = {step.step: step for step in steps}
        self._rows: dict[str, Row] = {row.step: row._asdict() for row in rows}
        # A pending step with pauses waits for its retry only within a segment.
        self._decided = {row.step for row in rows if row.pauses and row.status == StepStatus.PENDING}
        self._resuming: set[str] = set()
        self._changes = UnitOfWork()

    @property
    def changes(self) -> UnitOfWork:
        """The changes that are not recorded yet; callers may add to them."""
        return self._changes

    def add_usage(self, usage: AttemptUsage | None) -> None:
        """Adds the use of a model by an attempt to the changes."""
        if usage is not None:
            self._changes.model_usage.append(usage)

    def take_changes(self) -> UnitOfWork:
        """Returns the changes to record, and starts a new unit of work."""
        taken, self._changes = self._changes, UnitOfWork()
        return taken

    def plan(self, conditions_met: AbstractSet[str] = frozenset(), phase: Phase = Phase.MAIN) -> dag.Plan:
        """Returns the plan of a phase for the present statuses; `conditions_met` are steps whose condition is true."""
        return dag.plan(tuple(self._steps.values()), self._status(), conditions_met, phase)

    @property
    def began(self) -> bool:
        """Returns whether any step has begun or completed, which includes approvals and reused steps."""
        return any(row["attempt"] > 0 or row["status"] == StepStatus.COMPLETED for row in self._rows.values())

    def resolved_step(self, step: str) -> ResolvedStep:
        """Returns a step of the definition by its handle."""
        return self._steps[step]

    def value(self, step: str) -> str | None:
        """Returns the return value of a completed step as JSON text; None where the step has not completed."""
        row = self._rows[step]
        return row["value"] if row["status"] == StepStatus.COMPLETED else None

    def needs_of(self, step: str) -> JsonObject:
        """Returns the parsed return values of the steps that a step needs."""
        return {need: json_text.shared(text) for need, text in self.value_texts(step).items()}

    def value_texts(self, step: str) -> dict[str, str]:
        """Returns the return values of needed steps as JSON texts, `null` for a step that did not complete."""
        return {need: self._rows[need]["value"] or "null" for need in self._steps[step].needs}

    def items_from(self, step: str) -> str | None:
        """Returns the ended run whose items a fan-out reuses; None if a step that the fan-out needs is executed."""
        ended: str | None = self._rows[step]["items_from"]
        reused = all(self._rows[need]["reused_from"] is not None for need in self._steps[step].needs)
        return ended if reused else None

    def execute_items_anew(self) -> None:
        """Marks all items of fan-outs for execution instead of reuse."""
        for step, row in self._rows.items():
            if row["items_from"] is not None:
                self._set_status(step, StepStatus(row["status"]), items_from=None)

    def set_items(self, step: str, counts: ItemCounts) -> None:
        """Sets the item counts of a fan-out, which `ItemJournal` has written to the table."""
        self._rows[step].update(_count_columns(counts))

    def attempt(self, step: str) -> int:
        """Returns the number of the step's present attempt, 0 before the first."""
        return int(self._rows[step]["attempt"])

    def begin(self, step: str, at: int) -> None:
        """Begins an attempt of an agent, child or fan-out step in this segment."""
        row = self._set_status(step, StepStatus.RUNNING, started_at=at, segment_id=self._segment_id)
        row["attempt"] += 1
        self._resuming = (self._resuming | {step}) if step in self._decided else self._resuming - {step}
        self._decided.discard(step)
        self._changes.add_event("step.started", step, attempt=row["attempt"])

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

        `swept` are the counts of the sweep of value and files, if there was one.
        """
        self._complete(step, value, files, at)
        if swept is not None:
            self._changes.add_event("redaction.completed", step, stage=STEPS, files=swept.files, values=swept.values)
        outputs = sum(isinstance(file, NewOutput) for file in files)
        self._changes.add_event("step.completed", step, outputs=outputs)
        for message in warnings:
            self._changes.add_event("warning", step, message=message)
        self._changes.warnings += warnings

    def complete_fan_out(
        self, step: str, value: str, files: int, outputs: int, at: int, warnings: Sequence[str]
    ) -> None:
        """Completes a fan-out with the list of its items' values, as JSON text; the files are recorded already."""
        self._set_status(step, StepStatus.COMPLETED, finished_at=at, value=value, files_count=files)
        self._changes.counts["steps_completed"] += 1
        self._changes.add_event("step.completed", step, outputs=outputs)
        for message in warnings:
            self._changes.add_event("warning", step, message=message)
        self._changes.warnings += warnings
        self._changes.ended_fan_outs.append(step)

    @property
    def to_reuse(self) -> dict[str, str]:
        """The ended run of each pending step that is to be reused, by handle."""
        return {
            step: row["reused_from"]
            for step, row in self._rows.items()
            if row["reused_from"] is not None and row["status"] == StepStatus.PENDING
        }

    def reuse(self, step: str, value: str, files: Sequence[StepFile], at: int, items: ItemCounts | None = None) -> None:
        """Completes a reused step with value and item counts of the ended run, and with copies of its files."""
        self._complete(step, value, files, at)
        if items is not None:
            self.set_items(step, items)
        outputs = sum(isinstance(file, NewOutput) for file in files)
        self._changes.add_event("step.reused", step, run_id=self._rows[step]["reused_from"], outputs=outputs)

    def execute_anew(self, step: str, why: str) -> None:
        """Marks a step for execution instead of reuse; a warning of the run says why."""
        self._set_status(step, StepStatus.PENDING, reused_from=None)
        message = f"Step '{step}' is executed again: {why}"
        self._changes.warnings.append(message)
        self._changes.add_event("warning", step, message=message)

    def retry(self, step: str, failure_type: str, message: str, retry_at: int) -> None:
        """Records a failed attempt of a step, which stays pending until its retry."""
        self._record_failure(step, failure_type, message, retry_at)
        self._set_status(step, StepStatus.PENDING, started_at=None)

    def fail(self, step: str, failure_type: str, message: str, at: int) -> None:
        """Fails a step that is not retried; an optional one leaves a warning."""
        self._record_failure(step, failure_type, message, None)
        self._set_status(step, StepStatus.FAILED, finished_at=at, error_code=NODE_FAILED, error_message=message)
        self._changes.counts["steps_failed"] += 1
        if self._steps[step].phase is not Phase.MAIN:
            self.warn(self._failed_warning(step))
        elif not self._fails_run(step):
            self._changes.add_event("warning", step, message=self._failed_warning(step))

    def skip(self, step: str, reason: str) -> None:
        """Skips a step that need not run, without a warning."""
        self._set_status(step, StepStatus.SKIPPED)
        self._changes.counts["steps_skipped"] += 1
        self._changes.add_event("step.skipped", step, reason=reason)

    def skip_phase(self, phase: Phase, reason: str) -> None:
        """Skips the pending steps of a phase that will not run."""
        for step, resolved in self._steps.items():
            if resolved.phase is phase and self._rows[step]["status"] == StepStatus.PENDING:
                self.skip(step, reason)

    def cancel_unfinished(self, at: int) -> None:
        """Cancels unfinished steps of a run that ends, except `on_failure`, `always` and waiting approvals.

        A person may have decided since the rows were read, so `lifecycle_sql.end_waiting` cancels waiting approvals.
        """
        for step, row in self._rows.items():
            if self._steps[step].phase is not Phase.MAIN or row["status"] == StepStatus.WAITING:
                continue
            if row["status"] in STEP_UNFINISHED:
                self._set_status(step, StepStatus.CANCELLED, finished_at=None if row["started_at"] is None else at)

    def settle(self, plan: dag.Plan) -> None:
        """Skips and blocks the steps that will never begin."""
        for step in plan.skip:
            self._set_status(step, StepStatus.SKIPPED)
        for step in plan.block:
            self._set_status(step, StepStatus.BLOCKED)
        lacking = self._without_failed_need()
        for step in plan.skip:
            self._changes.counts["steps_skipped"] += 1
            self._changes.add_event("step.skipped", step, reason=self._unmet_reason(step))
            if step in lacking:
                self._changes.add_event("warning", step, message=self._skipped_warning(step))
        for step in plan.block:
            self._rows[step].update(error_code=INVARIANT_BLOCKED, error_message=self._unmet_reason(step))

    def request_approvals(self, requested: Sequence[str], at: int, summaries: Mapping[str, str] | None = None) -> None:
        """Requests the approvals of these steps; `summaries` are the evaluated summaries by step."""
        for step in requested:
            self._set_status(step, StepStatus.WAITING, started_at=at, segment_id=self._segment_id)["attempt"] += 1
            resolved, approval_id = self._steps[step], new_id("apr")
            self._changes.approvals.append(
                {
                    "approval_id": approval_id,
                    "run_id": self._run_id,
                    "segment_id": self._segment_id,
                    "step": step,
                    "title": resolved.title,
                    "instructions": resolved.instructions,
                    "state": _PENDING,
                    "requested_at": at,
                    "summary": (summaries or {}).get(step),
                    "tool_call": None,
                    **end_columns(resolved.approval, at),
                }
            )
            self._changes.counts["approvals_pending"] += 1
            self._changes.add_event("approval.requested", step, approval_id=approval_id, title=resolved.title)

    def pause(self, step: str, pause: StepPause, at: int) -> None:
        """Ends an attempt whose model's calls a person must approve, and requests an approval for each."""
        row = self._set_status(step, StepStatus.WAITING)
        row["pauses"] = self.pauses(step) + 1
        self._changes.conversations[step] = pause.conversation
        for call in pause.calls:
            self._changes.approvals.append(
                {
                    "approval_id": call.approval_id,
                    "run_id": self._run_id,
                    "segment_id": self._segment_id,
                    "step": step,
                    "title": call.title,
                    "instructions": None,
                    "state": _PENDING,
                    "requested_at": at,
                    "summary": None,
                    "tool_call": call.tool_call,
                    **end_columns(_SETTINGS_OF_CALL_APPROVALS, at),
                }
            )
            self._changes.counts["approvals_pending"] += 1
            self._changes.add_event("approval.requested", step, approval_id=call.approval_id, title=call.title)

    def resumes(self, step: str) -> bool:
        """Returns whether the step's present attempt goes on after calls of tools that waited for a person."""
        return step in self._resuming

    def pauses(self, step: str) -> int:
        """Returns how many attempts of the step ended because calls of tools had to wait for a person."""
        return self._rows[step]["pauses"] or 0

    def decide(self, approval: ApprovalRow, said: Statement, *, to_steps: bool) -> None:
        """Records a settled approval; with `to_steps`, other steps see `said` instead of the stored statement."""
        self._changes.events += settled_events(approval, said)
        if to_steps and approval.state in APPROVAL_DECIDED and approval.tool_call is None:
            row = self._rows[approval.step]
            row["value"] = decision_value(approval.state, said, approval.decided_at or 0)
            self._changes.steps[approval.step] = row

    def failure(self, plan: dag.Plan) -> tuple[str, str] | None:
        """Returns failure code and message of a run that cannot go on; None where it can."""
        if plan.failed is not None:
            return NODE_FAILED, f"Step '{plan.failed}' failed: {self._rows[plan.failed]['error_message']}"
        if plan.stuck is not None:
            if self._steps[plan.stuck].kind == "approval" and self._unmet_need(plan.stuck) is None:
                # The step's error says whether a person rejected it or its deadline passed.
                message = str(self._rows[plan.stuck]["error_message"])
                return INVARIANT_BLOCKED, message.replace("approval", f"approval of step '{plan.stuck}'", 1)
            return INVARIANT_BLOCKED, f"Step '{plan.stuck}' was blocked: {self._unmet_reason(plan.stuck)}"
        return None

    def warn(self, message: str) -> None:
        """Adds a warning of the run, and an event for it."""
        self._changes.warnings.append(message)
        self._changes.add_event("warning", message=message)

    def warnings(self) -> list[str]:
        """Returns a warning for each tolerated failure, and each step skipped because of one."""
        lacking = self._without_failed_need()
        return [
            self._failed_warning(step) if row["status"] == StepStatus.FAILED else self._skipped_warning(step)
            for step, row in self._rows.items()
            if self._steps[step].phase is Phase.MAIN
            and (row["status"] == StepStatus.FAILED or (row["status"] == StepStatus.SKIPPED and step in lacking))
        ]

    def _complete(self, step: str, value: str, files: Sequence[StepFile], at: int) -> None:
        self._set_status(step, StepStatus.COMPLETED, finished_at=at, value=value, files_count=len(files))
        self._changes.files += files
        self._changes.counts["steps_completed"] += 1

    def _record_failure(self, step: str, failure_type: str, message: str, retry_at: int | None) -> None:
        self._changes.add_event(
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

    def _fails_run(self, step: str) -> bool:
        return dag.fails_run(self._steps[step], tuple(self._steps.values()))

    def _without_failed_need(self) -> set[str]:
        return dag.without_failed_need(self._steps, self._status())

    def _failed_warning(self, step: str) -> str:
        resolved = self._steps[step]
        if resolved.phase is not Phase.MAIN:
            return f"The step '{step}' of {resolved.phase} failed."
        return f"The optional step '{step}' failed." if resolved.optional else f"The step '{step}' failed, as accepted."

    def _skipped_warning(self, step: str) -> str:
        return f"The optional step '{step}' was skipped. {self._unmet_reason(step)}"

    def _set_status(self, step: str, status: StepStatus, **columns: object) -> Row:
        row = self._rows[step]
        if row["pauses"] and status is not StepStatus.RUNNING:
            # Of a step that was to go on, too, where its run ends first.
            self._changes.conversations[step] = None
        row.update(columns, status=status.value)
        self._changes.steps[step] = row
        return row


def _count_columns(counts: ItemCounts) -> dict[str, int]:
    return {f"items_{name}": count for name, count in counts._asdict().items()}
