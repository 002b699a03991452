"""Claims a queued segment for this process, and loads its run, workflow and steps as a `ClaimedSegment`."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from operator import attrgetter
from typing import Final, NamedTuple

from backend.common import json_text
from backend.common.json_text import JsonMapping, JsonObject
from backend.common.states import RunStatus, SegmentState
from backend.runtime.agents.model_meter import RunBudget
from backend.runtime.execution import retries, sql
from backend.runtime.execution.segment_context import SegmentContext
from backend.runtime.execution.slots import StepSlots, memory_of
from backend.runtime.execution.step_states import StepStates, UnitOfWork
from backend.runtime.outcomes import LICENSE_UNAVAILABLE
from backend.runtime.run_redaction import RunRedaction
from backend.services.deployment import sql as deployment_sql
from backend.services.model_usage import sql as model_usage_sql
from backend.services.runs import lifecycle, lifecycle_sql, redaction_manifest
from backend.services.runs.change_records import log_change
from backend.services.uploads import sql as uploads_sql
from backend.services.workflows.resolved_workflow import APPROVAL, Phase, ResolvedStep, ResolvedWorkflow, load_workflow
from backend.storage.database import OutcomeUnknownError, Tx
from backend.storage.tables.segments import ApprovalRow, StepRow


@dataclass(frozen=True, slots=True)
class ClaimedSegment:
    """A segment that this process has claimed, with its run; `first` marks the first segment of a run.

    `redaction` is None where the run's PII policy is off. `decisions` are the decided approvals that it continues from
    and that no event records yet. `begun` are steps that began with the claim, and hold their slots. `upload_id` names
    the files that a person uploaded for the run. `inputs_manifest` is JSON, of the first segment that copied inputs.
    `resumed_from` is the run that this one takes over from. `budget` is for calls to models by its steps.
    """

    run_id: str
    workflow_id: str
    key_id: str
    first: bool
    parameters: JsonObject
    input_text: str | None
    workflow: ResolvedWorkflow
    step_states: StepStates
    redaction: RunRedaction | None
    decisions: list[ApprovalRow]
    begun: Sequence[str] = ()
    upload_id: str | None = None
    inputs_manifest: str | None = None
    resumed_from: str | None = None
    client_reference: str | None = None
    budget: RunBudget = field(default_factory=RunBudget)


class _QueuedSegment(NamedTuple):
    """Rows that are read before the claim and cannot change until it; `steps` is None except for a first segment."""

    run: sql.ExecutedRunRow
    workflow: ResolvedWorkflow
    steps: list[StepRow] | None
    upload_id: str | None


async def claim_segment(context: SegmentContext, segment_id: str) -> ClaimedSegment | None:
    """Claims a queued segment; returns None where this process need not execute it.

    None means that another process has claimed it, so dispatching a segment twice is harmless; that its run has ended;
    or that a first segment only requested approvals, so that the claim parked its run. While the licence is on hold,
    the claim of a first segment fails the run.

    Raises:
        DatabaseUnavailableError: it was not claimed, and may be claimed again.
        OutcomeUnknownError: whether it was claimed could not be found out for ten seconds.
    """
    found = await context.read(lambda tx: _find_queued(context, tx, segment_id))
    return None if found is None else await _Claim(context, segment_id, found).run()


class _Claim:
    """The transaction that claims a queued segment, with the first changes of its run."""

    def __init__(self, context: SegmentContext, segment_id: str, found: _QueuedSegment) -> None:
        self._context = context
        self._segment_id = segment_id
        self._queued = found
        self._run = run = found.run
        self._first = found.steps is not None
        self._at = context.clock()
        self._parameters = json_text.parse(run.parameters or "{}")
        self._redaction = _redaction(context, run)
        self._states = states = (
            None if found.steps is None else StepStates(found.workflow.steps, run.run_id, segment_id, found.steps)
        )
        self._begun: FirstSteps | None = None
        to_prepare = self._redaction is not None or found.upload_id is not None or run.resumed_from is not None
        if states is not None and not to_prepare and not has_inputs(found.workflow, self._parameters):
            first, most = steps_to_begin(found.workflow), found.workflow.parallel_steps
            self._begun = FirstSteps(context.slots, run.key_id, first, most, states, self._at)
        self._changes = UnitOfWork() if states is None else states.take_changes()

    async def run(self) -> ClaimedSegment | None:
        """Writes the claim; returns the claimed segment, see `claim_segment`."""
        claimed = None
        try:
            try:
                claimed = await self._write(self._claim_or_end)
            except OutcomeUnknownError:
                # The commit may have succeeded.
                what = f"The claim of segment {self._segment_id}"
                claimed = await retries.REPEATABLE.run(lambda: self._write(self._find_or_repeat_claim), what)
        finally:
            if claimed is None and self._begun is not None:
                self._begun.release()
        return claimed

    def _write(self, work: Callable[[Tx], ClaimedSegment | None]) -> Awaitable[ClaimedSegment | None]:
        return self._context.write_run(self._run.run_id, self._run.key_id, work)

    def _find_or_repeat_claim(self, tx: Tx) -> ClaimedSegment | None:
        owns = lifecycle_sql.owns(tx, self._segment_id, self._context.owner)
        return self._claimed(tx) if owns else self._claim_or_end(tx)

    def _claim_or_end(self, tx: Tx) -> ClaimedSegment | None:
        run_id, segment_id, owner, at = self._run.run_id, self._segment_id, self._context.owner, self._at
        licensed = not self._first or deployment_sql.get(tx).licence_state == "active"
        if not lifecycle.begin_segment(tx, segment_id, owner, at, leased=self._context.leased):
            # The segment is still queued if this process has lost its lease.
            lifecycle.requeue_segment(tx, segment_id)
            return None
        log_change(
            tx,
            run_id,
            RunStatus.QUEUED if self._first else RunStatus.WAITING,
            RunStatus.RUNNING,
            key_id=self._run.key_id,
            workflow_id=self._run.workflow_id,
            segment_id=segment_id,
        )
        if not licensed:
            LICENSE_UNAVAILABLE.close(tx, run_id, at)
            return None
        if self._changes:
            self._changes.write(tx, run_id, segment_id, at)
        if self._changes.approvals:
            lifecycle.park_run(tx, segment_id, at)
            return None
        return self._claimed(tx)

    def _claimed(self, tx: Tx) -> ClaimedSegment:
        run, workflow, segment_id = self._run, self._queued.workflow, self._segment_id
        return ClaimedSegment(
            run_id=run.run_id,
            workflow_id=run.workflow_id,
            key_id=run.key_id,
            first=self._first,
            parameters=self._parameters,
            input_text=run.input_text,
            workflow=workflow,
            step_states=self._states
            or StepStates(workflow.steps, run.run_id, segment_id, sql.steps_of(tx, run.run_id)),
            redaction=self._redaction,
            decisions=[] if self._first else lifecycle_sql.unrecorded_decisions(tx, run.run_id, segment_id),
            begun=() if self._begun is None else self._begun.names,
            upload_id=self._queued.upload_id,
            inputs_manifest=run.inputs_manifest,
            resumed_from=run.resumed_from,
            client_reference=run.client_reference,
            budget=_budget(tx, run.run_id, workflow),
        )


def new_budget(workflow: ResolvedWorkflow) -> RunBudget:
    """Returns the budget for calls to models of a run that has used nothing yet."""
    return RunBudget() if workflow.budget is None else RunBudget(*workflow.budget)


def _budget(tx: Tx, run_id: str, workflow: ResolvedWorkflow) -> RunBudget:
    """Returns the run's budget for calls to models, with the use of its earlier segments."""
    budget = new_budget(workflow)
    if workflow.budget is not None:
        used = model_usage_sql.run_sums(tx, run_id)
        budget.add(used.input_tokens + used.output_tokens, Decimal(used.cost_microusd))
    return budget


def _find_queued(context: SegmentContext, tx: Tx, segment_id: str) -> _QueuedSegment | None:
    run = sql.find_run_of_segment(tx, segment_id)
    if run is None or run.state != SegmentState.QUEUED:
        return None
    workflow = load_workflow(context.cache, tx, context.capabilities, run.workflow_id, run.version)
    if workflow is None:
        return None
    # Only people upload files.
    upload_id = None if run.key_id else uploads_sql.of_run(tx, run.run_id)
    return _QueuedSegment(run, workflow, sql.steps_of(tx, run.run_id) if run.ordinal == 1 else None, upload_id)


def _redaction(context: SegmentContext, run: sql.ExecutedRunRow) -> RunRedaction | None:
    policy = json_text.parse(run.pii_policy)
    if policy["mode"] == "off":
        return None
    assert run.pii_redaction is not None
    return RunRedaction(context.redactor, policy, redaction_manifest.model_calls(run.pii_redaction), run.key_id)


def has_inputs(workflow: ResolvedWorkflow, parameters: JsonMapping) -> bool:
    """Returns whether input objects must be copied in before a step begins."""
    return bool(workflow.inputs) and any(declared.parameter in parameters for declared in workflow.inputs)


def steps_to_begin(workflow: ResolvedWorkflow) -> Sequence[ResolvedStep]:
    """Returns the steps with which a run begins at once: all agent steps or all approvals, else none.

    None, too, where one of them has an expression, which is evaluated first, is a fan-out, or starts a child.
    """
    first = [step for step in workflow.steps if step.phase is Phase.MAIN and not step.needs]
    return first if all(map(_begins_at_once, first)) and len(set(map(attrgetter("kind"), first))) == 1 else []


def _begins_at_once(step: ResolvedStep) -> bool:
    unconditional = step.when is None and (step.approval is None or step.approval.summary is None)
    return unconditional and (step.takes_slot or step.kind == APPROVAL)


def slot_memory(slots: StepSlots, step: ResolvedStep) -> int:
    """Returns the memory in MB to reserve for a step; 0 where it needs more than all slots have, and will fail."""
    memory_mb = memory_of(step)
    return memory_mb if memory_mb <= slots.memory_mb else 0


class FirstSteps:
    """Begins the first steps of a run without PII policy or inputs to copy; `names` hold slots until `release`.

    `first` is from `steps_to_begin`. All approvals are requested; of agent steps, up to `most` begin for which a slot
    is free.
    """

    def __init__(
        self, slots: StepSlots, key_id: str, first: Sequence[ResolvedStep], most: int, states: StepStates, at: int
    ) -> None:
        self._slots: Final = slots
        self._key_id: Final = key_id
        self._memory_of_step: Final[dict[str, int]] = {}
        if first and first[0].kind == APPROVAL:
            states.request_approvals([step.step for step in first], at)
            return
        for step in first[:most]:
            memory_mb = slot_memory(slots, step)
            if not slots.try_take(key_id, memory_mb):
                return
            self._memory_of_step[step.step] = memory_mb
            states.begin(step.step, at)

    @property
    def names(self) -> list[str]:
        """Handles of the agent steps that have begun."""
        return list(self._memory_of_step)

    def release(self) -> None:
        """Releases the slots again, because the steps will not run."""
        while self._memory_of_step:
            _, memory_mb = self._memory_of_step.popitem()
            self._slots.release(self._key_id, memory_mb)
