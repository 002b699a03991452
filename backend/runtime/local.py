"""The runtime of a process that executes its runs itself."""

from collections.abc import Mapping, Sequence
from typing import Any

from backend.common import json_text
from backend.runtime.execution.claim import ClaimedSegment, FirstSteps, has_inputs, new_budget, steps_to_begin
from backend.runtime.execution.step_states import StepStates
from backend.runtime.scheduling.dispatcher import RunDispatcher
from backend.runtime.worker.executor import Executor
from backend.services.runs.runtime_port import BegunSegment
from backend.services.workflows.resolved_workflow import AGENT, ResolvedWorkflow
from backend.storage.tables.runs import RunRow
from backend.storage.tables.segments import StepRow
from telemetry import Family


class LocalRuntime:
    """Dispatches and executes runs in this process; see `backend.services.runs.runtime_port.Runtime`.

    Nothing happens before `start`; until then, and after `stop`, the calls of the runs service only leave work behind
    in the tables.
    """

    def __init__(self, executor: Executor, dispatcher: RunDispatcher) -> None:
        self.executor = executor
        """Executes the runs of this process."""
        self.dispatcher = dispatcher
        """Dispatches runs, and removes what is left of erased ones."""

    def start(self) -> None:
        """Starts to execute, then takes up what is queued; a start that fails leaves nothing running.

        Raises:
            SandboxUnavailableError: steps cannot be isolated here as the settings ask; the message says what to do.
        """
        try:
            self.executor.start(on_free=self.dispatcher.segment_ended)
            self.dispatcher.start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Begins nothing new, lets steps go on for a short grace, and ends the rest as orphaned; may be repeated."""
        self.dispatcher.stop()
        self.executor.stop()

    def begin_run(
        self,
        run: RunRow,
        segment_id: str,
        steps: Sequence[StepRow],
        terms: ResolvedWorkflow,
        parameters: Mapping[str, Any],
        at: int,
    ) -> BegunSegment | None:
        """Begins a new run here, unless other runs wait for its slots; see `Runtime.begin_run`."""
        session = self.executor.sessions.present
        if session is None or not session.begins_runs or run.pii_redaction or has_inputs(terms, parameters):
            return None
        first = steps_to_begin(terms)
        if not first or (first[0].kind == AGENT and not self.dispatcher.has_room(session.engine.running)):
            return None
        engine, states = session.engine, StepStates(terms.steps, run.run_id, segment_id, steps)
        # Steps that have no slot now wait for one as those of any segment.
        begun = FirstSteps(session.slots, run.key_id, first, terms.parallel_steps, states, at)
        changes = states.take_changes()
        if not changes.approvals and not engine.reserve(segment_id):
            engine.call_soon(begun.release)
            return None

        def settle(holds: bool) -> None:
            if changes.approvals:
                return
            if not holds:
                engine.release(segment_id)
                engine.call_soon(begun.release)
                return
            claimed = ClaimedSegment(
                run_id=run.run_id,
                workflow_id=run.workflow_id,
                key_id=run.key_id,
                first=True,
                parameters=json_text.parse(run.parameters or "{}"),
                input_text=run.input_text,
                terms=terms,
                step_states=states,
                redaction=None,
                decisions=[],
                begun=begun.names,
                client_reference=run.client_reference,
                budget=new_budget(terms),
            )
            engine.confirm(segment_id, claimed)

        return BegunSegment(engine.owner, changes.events, changes.steps, changes.approvals, settle)

    def wake(self) -> None:
        """Starts to launch queued segments; see `Runtime.wake`."""
        self.dispatcher.launching.wake()

    def cancel(self, run_id: str) -> None:  # noqa: ARG002 - the run's row says it all, and survives a crash
        """Ends a running run; see `Runtime.cancel`."""
        self.executor.sweep_now()

    def forget(self, run_id: str) -> None:  # noqa: ARG002 - its order is in the tables, and survives a crash
        """Starts to remove what an erased run left; see `Runtime.forget`."""
        self.dispatcher.removing.wake()

    def measured(self) -> list[Family]:
        """Returns the metrics of execution in this process."""
        return self.executor.measured()

    def upkeep(self) -> dict[str, int]:
        """Deletes expired rows; see `Runtime.upkeep`."""
        return self.dispatcher.upkeep()
