"""Moves runs by method calls: makes the transitions and records of a real execution without executing steps."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from backend.common.ids import new_id
from backend.common.states import RunStatus, SegmentState, StepStatus
from backend.runtime.execution import sql
from backend.runtime.execution.dag import Plan
from backend.runtime.execution.step_states import StepStates
from backend.runtime.outcomes import CANCEL, LICENSE_UNAVAILABLE, RunOutcome
from backend.runtime.promotion import carried_summary, make_result, new_output
from backend.services.dependencies import Services
from backend.services.deployment import sql as deployment_sql
from backend.services.outputs.sql import NewOutput, add_outputs
from backend.services.runs import lifecycle, lifecycle_sql
from backend.services.workflows.resolved_workflow import AGENT, ResolvedWorkflow, load_workflow
from backend.storage.database import Tx, run_of
from backend.storage.object_keys import object_key
from backend.storage.objects import ObjectStore
from contract import failure_codes

_OWNER: Final = "script"


class ScriptError(ValueError):
    """Raised for a move that no execution could make; the message says what the run can do instead."""


@dataclass(frozen=True, slots=True)
class _Execution:
    """The executing segment of a run, with the states of its steps."""

    tx: Tx
    run_id: str
    segment_id: str
    at: int
    workflow: ResolvedWorkflow
    states: StepStates

    def record(self) -> None:
        """Writes the changes of the steps' states."""
        self.states.take_changes().write(self.tx, self.run_id, self.segment_id, self.at)

    def fail_if_stuck(self) -> bool:
        """Closes the run as failed if its steps cannot go on; returns whether the run was closed."""
        plan = self.states.plan()
        self.states.settle(plan)
        failure = self.states.failure(plan)
        if failure is not None:
            self.record()
            RunOutcome(RunStatus.FAILED, *failure).close(self.tx, self.run_id, self.at)
        return failure is not None

    def running(self) -> list[str]:
        """Returns the steps that have begun and not finished, according to the table."""
        return [row.step for row in sql.steps_of(self.tx, self.run_id) if row.status == StepStatus.RUNNING]


class ScriptedRuns:
    """Runtime of a backend under test: a run keeps its state until one of these methods moves it.

    Each method begins a queued run first. A run whose cancellation was requested, or whose approval was rejected, ends
    as cancelled or failed at the next call of any of these methods.
    """

    def __init__(self, services: Services, objects: ObjectStore) -> None:
        self._services = services
        self._objects = objects

    def begin(self, run_id: str) -> None:
        """Sets a queued run running, with the steps that need no other."""

        def work(execution: _Execution) -> None:
            for step in execution.states.plan().begin:
                execution.states.begin(step, execution.at)
            execution.record()

        self._execute(run_id, work)

    def progress(self, run_id: str, message: str, **data: Any) -> None:
        """Records the event `step.progress` of the first step that runs or may begin."""

        def work(execution: _Execution) -> None:
            step = _working_step(execution)
            execution.states.changes.event("step.progress", step, **data, message=message)
            execution.record()

        self._execute(run_id, work)

    def park(self, run_id: str) -> list[str]:
        """Completes the steps before the next approvals, requests these approvals, and returns their ids.

        Raises:
            ScriptError: no approval is left to request.
        """
        asked: list[str] = []

        def work(execution: _Execution) -> None:
            plan = _complete_agents(execution, {}, {})
            if not plan.ask:
                raise ScriptError(
                    "No approval is left to wait for: add_workflow(approvals=[...]) makes a workflow of some."
                )
            execution.states.request_approvals(plan.ask, execution.at)
            asked.extend(row["approval_id"] for row in execution.states.changes.approvals)
            execution.record()
            lifecycle.park_run(execution.tx, execution.segment_id, execution.at)

        self._execute(run_id, work)
        return asked

    def finish_run(
        self,
        run_id: str,
        *,
        result: Any = None,
        outputs: Mapping[str, bytes | str] | None = None,
        warnings: Sequence[str] = (),
    ) -> None:
        """Completes all remaining steps and the run.

        Args:
            run_id: The run.
            result: The value of the result step, as JSON; its member `summary_markdown` becomes the run's summary.
            outputs: Files by path of the result step, or of the last step where the workflow has no result.
            warnings: Warnings of the run.

        Raises:
            ScriptError: an approval is still to come, or `result` is given and the workflow declares none.
        """
        workflow = self._workflow(run_id)
        if result is not None and workflow.result_step is None:
            raise ScriptError("The workflow declares no result: its manifest needs `result`.")
        value = json.dumps(result, ensure_ascii=False, separators=(",", ":"))
        mismatch = None
        if workflow.result_schema is not None:
            mismatch = self._services.schemas.mismatch(workflow.result_schema, value, "result", owner=_OWNER)
        last = workflow.result_step or next(step.step for step in reversed(workflow.steps) if step.kind == AGENT)

        def work(execution: _Execution) -> None:
            left = [self._store(run_id, last, path, data) for path, data in (outputs or {}).items()]
            plan = _complete_agents(execution, {last: value}, {last: left})
            if plan.ask:
                raise _approval_first(plan)
            run_result, all_warnings, result_outputs = lifecycle.RunResult(), list(warnings), list[NewOutput]()
            if workflow.result_step is not None:
                stored = make_result(self._objects, run_id, value, mismatch, carried_summary(result))
                run_result = stored.result
                all_warnings += stored.warnings
                result_outputs.append(stored.output)
            execution.record()
            lifecycle.complete_run(
                execution.tx,
                execution.segment_id,
                execution.at,
                run_result,
                all_warnings,
                add_output=lambda: add_outputs(execution.tx, result_outputs, execution.at),
            )

        self._execute(run_id, work)

    def fail(self, run_id: str, message: str = "It failed.", *, code: str = failure_codes.NODE_FAILED) -> None:
        """Fails the first step that runs or may begin, and the run with it unless the step is optional.

        A code other than `node_failed`, such as `wall_clock_limit_reached`, fails the run itself.

        Raises:
            ScriptError: the code does not exist.
        """
        if code not in failure_codes.ALL:
            raise ScriptError(f"The failure code must be one of: {', '.join(failure_codes.ALL)}.")

        def work(execution: _Execution) -> None:
            if code != failure_codes.NODE_FAILED:
                RunOutcome(RunStatus.FAILED, code, message).close(execution.tx, run_id, execution.at)
                return
            execution.states.fail(_working_step(execution), "Failed", message, execution.at)
            if not execution.fail_if_stuck():
                execution.record()

        self._execute(run_id, work)

    def _execute(self, run_id: str, work: Callable[[_Execution], None]) -> None:
        """Runs `work` on the run's segment in one transaction, unless the run must end instead."""
        at = self._services.clock()

        def write(tx: Tx) -> None:
            segment_id = _open_segment(tx, run_id)
            lifecycle.begin_segment(tx, segment_id, _OWNER, at)
            run = sql.run_of_segment(tx, segment_id)
            if run.cancel_requested_at is not None:
                CANCEL.close(tx, run_id, at)
            elif run.ordinal == 1 and deployment_sql.get(tx).licence_state != "active":
                LICENSE_UNAVAILABLE.close(tx, run_id, at)
            else:
                workflow = self._workflow_of_segment(tx, segment_id)
                states = StepStates(workflow.steps, run_id, segment_id, sql.steps_of(tx, run_id))
                execution = _Execution(tx, run_id, segment_id, at, workflow, states)
                if not execution.fail_if_stuck():
                    work(execution)

        self._services.database.write(write, lock_key=run_of(run_id))

    def _workflow(self, run_id: str) -> ResolvedWorkflow:
        return self._services.database.snapshot(lambda tx: self._workflow_of_segment(tx, _open_segment(tx, run_id)))

    def _workflow_of_segment(self, tx: Tx, segment_id: str) -> ResolvedWorkflow:
        run, shared = sql.run_of_segment(tx, segment_id), self._services
        workflow = load_workflow(shared.cache, tx, shared.capabilities, run.workflow_id, run.version)
        assert workflow is not None
        return workflow

    def _store(self, run_id: str, step: str, path: str, data: bytes | str) -> NewOutput:
        output_id = new_id("out")
        content = data.encode() if isinstance(data, str) else data
        stored = self._objects.put_bytes(object_key(run_id, output_id), content)
        return new_output(run_id, output_id, f"{step}/{path}", step, stored)


def _open_segment(tx: Tx, run_id: str) -> str:
    """Returns the running segment, or the one that waits to run.

    Raises:
        ScriptError: the run is over, waits for approvals, or does not exist.
    """
    found = lifecycle_sql.open_segments(tx, run_id)
    if not found:
        raise ScriptError(f"Run {run_id} has nothing to execute: it is over, waits for approvals, or does not exist.")
    return next((each.segment_id for each in found if each.state == SegmentState.RUNNING), found[0].segment_id)


def _working_step(execution: _Execution) -> str:
    """Returns the first running step; begins the first step that may begin where none runs."""
    running = execution.running()
    if running:
        return running[0]
    plan = execution.states.plan()
    if not plan.begin:
        raise _approval_first(plan) if plan.ask else ScriptError("No step is left to run: call finish_run.")
    execution.states.begin(plan.begin[0], execution.at)
    return plan.begin[0]


def _approval_first(plan: Plan) -> ScriptError:
    return ScriptError(f"The run waits for step '{plan.ask[0]}' first: call park, then DecideApproval.")


def _complete_agents(
    execution: _Execution, values: Mapping[str, str], outputs: Mapping[str, Sequence[NewOutput]]
) -> Plan:
    """Completes agent steps until only approvals, or no steps, are left; returns the plan at that point."""
    states = execution.states
    begun = execution.running()
    while True:
        for step in begun:
            states.complete(step, values.get(step, "null"), outputs.get(step, ()), execution.at)
        plan = states.plan()
        if not plan.begin:
            return plan
        for step in plan.begin:
            states.begin(step, execution.at)
        begun = list(plan.begin)
