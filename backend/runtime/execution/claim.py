"""Claims a segment for execution, and loads what its execution needs."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from operator import attrgetter
from typing import Any, Final, NamedTuple

from backend.common import json_text
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
    """A segment that this process has claimed; `first` where it is its run's first.

    `redaction` is None where the run's PII policy is off. `decisions` are the decided approvals that it continues from
    and that no event records yet. `begun` are steps that began with the claim, and hold their slots. `upload_id` names
    the files that a person uploaded for the run. `inputs_manifest` is JSON, of the first segment that copied inputs.
    `resumed_from` is the run that this one takes over from. `budget` is for calls to models by its steps.
    """

    run_id: str
    workflow_id: str
    key_id: str
    first: bool
    parameters: dict[str, Any]
    input_text: str | None
    terms: ResolvedWorkflow
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
    """Rows that are read before the claim, and do not change until then; `steps` are None for a later segment."""

    run: sql.ExecutedRunRow
    terms: ResolvedWorkflow
    steps: list[StepRow] | None
    upload_id: str | None


async def claim_segment(context: SegmentContext, segment_id: str) -> ClaimedSegment | None:
    """Claims a queued segment; returns None where there is nothing left to do for it here.

    That is where another process has claimed it, or its run is over, so handing a segment over twice is harmless; and
    where a first segment only asked for approvals, so that its run was parked with the claim. The first segment of a
    run fails it where the licence is on hold.

    Raises:
        DatabaseUnavailableError: it was not claimed, and may be claimed again.
        OutcomeUnknownError: whether it was claimed could not be found out for ten seconds.
    """
    found = await context.read(lambda tx: _find(context, tx, segment_id))
    return None if found is None else await _Claim(context, segment_id, found).run()


class _Claim:
    """The claim of a segment that was found queued, with the first changes of its run."""

    def __init__(self, context: SegmentContext, segment_id: str, found: _QueuedSegment) -> None:
        self._context = context
        self._segment_id = segment_id
        self._found = found
        self._run = run = found.run
        self._first = found.steps is not None
        self._at = context.clock()
        self._parameters = json_text.parse(run.parameters or "{}")
        self._redaction = _redaction(context, run)
        self._states = states = (
            None if found.steps is None else StepStates(found.terms.steps, run.run_id, segment_id, found.steps)
        )
        self._begun: FirstSteps | None = None
        to_prepare = self._redaction is not None or found.upload_id is not None or run.resumed_from is not None
        if states is not None and not to_prepare and not has_inputs(found.terms, self._parameters):
            first, most = steps_to_begin(found.terms), found.terms.parallel_steps
            self._begun = FirstSteps(context.slots, run.key_id, first, most, states, self._at)
        self._changes = UnitOfWork() if states is None else states.take_changes()

    async def run(self) -> ClaimedSegment | None:
        """Writes the claim; returns the claimed segment, see `claim_segment`."""
        claimed = None
        try:
            try:
                claimed = await self._write(self._take)
            except OutcomeUnknownError:
                # It may be this process's already.
                what = f"The claim of segment {self._segment_id}"
                claimed = await retries.REPEATABLE.run(lambda: self._write(self._take_unless_taken), what)
        finally:
            if claimed is None and self._begun is not None:
                self._begun.release()
        return claimed

    def _write(self, work: Callable[[Tx], ClaimedSegment | None]) -> Awaitable[ClaimedSegment | None]:
        return self._context.write_run(self._run.run_id, self._run.key_id, work)

    def _take_unless_taken(self, tx: Tx) -> ClaimedSegment | None:
        owns = lifecycle_sql.owns(tx, self._segment_id, self._context.owner)
        return self._claimed(tx) if owns else self._take(tx)

    def _take(self, tx: Tx) -> ClaimedSegment | None:
        run_id, segment_id, owner, at = self._run.run_id, self._segment_id, self._context.owner, self._at
        licensed = not self._first or deployment_sql.get(tx).licence_state == "active"
        if not lifecycle.begin_segment(tx, segment_id, owner, at, leased=self._context.leased):
            # It is queued still where this process has lost its lease.
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
        run, terms, segment_id = self._run, self._found.terms, self._segment_id
        return ClaimedSegment(
            run_id=run.run_id,
            workflow_id=run.workflow_id,
            key_id=run.key_id,
            first=self._first,
            parameters=self._parameters,
            input_text=run.input_text,
            terms=terms,
            step_states=self._states or StepStates(terms.steps, run.run_id, segment_id, sql.steps_of(tx, run.run_id)),
            redaction=self._redaction,
            decisions=[] if self._first else lifecycle_sql.unrecorded_decisions(tx, run.run_id, segment_id),
            begun=() if self._begun is None else self._begun.names,
            upload_id=self._found.upload_id,
            inputs_manifest=run.inputs_manifest,
            resumed_from=run.resumed_from,
            client_reference=run.client_reference,
            budget=_budget(tx, run.run_id, terms),
        )


def new_budget(terms: ResolvedWorkflow) -> RunBudget:
    """Returns the budget for calls to models of a run that has used nothing yet."""
    return RunBudget() if terms.budget is None else RunBudget(*terms.budget)


def _budget(tx: Tx, run_id: str, terms: ResolvedWorkflow) -> RunBudget:
    """Returns the run's budget for calls to models, with the use of its earlier segments."""
    budget = new_budget(terms)
    if terms.budget is not None:
        used = model_usage_sql.of_run(tx, run_id)
        budget.add(used.input_tokens + used.output_tokens, Decimal(used.cost_microusd))
    return budget


def _find(context: SegmentContext, tx: Tx, segment_id: str) -> _QueuedSegment | None:
    run = sql.find_run_of_segment(tx, segment_id)
    if run is None or run.state != SegmentState.QUEUED:
        return None
    terms = load_workflow(context.cache, tx, context.capabilities, run.workflow_id, run.version)
    if terms is None:
        return None
    # Only people upload files.
    upload_id = None if run.key_id else uploads_sql.of_run(tx, run.run_id)
    return _QueuedSegment(run, terms, sql.steps_of(tx, run.run_id) if run.ordinal == 1 else None, upload_id)


def _redaction(context: SegmentContext, run: sql.ExecutedRunRow) -> RunRedaction | None:
    policy = json_text.parse(run.pii_policy)
    if policy["mode"] == "off":
        return None
    assert run.pii_redaction is not None
    return RunRedaction(context.redactor, policy, redaction_manifest.model_calls(run.pii_redaction), run.key_id)


def has_inputs(terms: ResolvedWorkflow, parameters: Mapping[str, Any]) -> bool:
    """Returns whether there are objects to copy in before a step begins."""
    return bool(terms.inputs) and any(declared.parameter in parameters for declared in terms.inputs)


def steps_to_begin(terms: ResolvedWorkflow) -> Sequence[ResolvedStep]:
    """Returns the steps that a run begins with at once; none where their kinds are mixed, or one is more than that.

    That is one with an expression, which is evaluated before, a fan-out or a child.
    """
    first = [step for step in terms.steps if step.phase is Phase.MAIN and not step.needs]
    return first if all(map(_begins_at_once, first)) and len(set(map(attrgetter("kind"), first))) == 1 else []


def _begins_at_once(step: ResolvedStep) -> bool:
    unjudged = step.when is None and (step.approval is None or step.approval.summary is None)
    return unjudged and (step.takes_slot or step.kind == APPROVAL)


def slot_memory(slots: StepSlots, step: ResolvedStep) -> int:
    """Returns the memory that a step holds with its slot; 0 where it needs more than there is, and will not run."""
    memory_mb = memory_of(step)
    return memory_mb if memory_mb <= slots.memory_mb else 0


class FirstSteps:
    """Steps that begin a run without a PII policy and inputs to copy; `names` hold slots until they end, or `release`.

    Of `first`, as `steps_to_begin` returns it, all approvals are requested; of agents' steps as many begin, up to
    `most`, as have slots now.
    """

    def __init__(
        self, slots: StepSlots, key_id: str, first: Sequence[ResolvedStep], most: int, states: StepStates, at: int
    ) -> None:
        self._slots: Final = slots
        self._key_id: Final = key_id
        self._held_mb: Final[dict[str, int]] = {}
        if first and first[0].kind == APPROVAL:
            states.request_approvals([step.step for step in first], at)
            return
        for step in first[:most]:
            memory_mb = slot_memory(slots, step)
            if not slots.take_now(key_id, memory_mb):
                return
            self._held_mb[step.step] = memory_mb
            states.begin(step.step, at)

    @property
    def names(self) -> list[str]:
        """The steps that have begun."""
        return list(self._held_mb)

    def release(self) -> None:
        """Releases the slots of steps that do not run after all."""
        while self._held_mb:
            _, memory_mb = self._held_mb.popitem()
            self._slots.release(self._key_id, memory_mb)
