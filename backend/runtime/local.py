"""The runtime of a process that dispatches and executes its runs itself."""

from collections.abc import Sequence

from backend.common import json_text
from backend.common.json_text import JsonMapping
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

    Before `start` and after `stop`, calls of the runs service change only the tables, where another process or the
    next start finds the work.
    """

    def __init__(self, executor: Executor, dispatcher: RunDispatcher) -> None:
        self.executor = executor
        """Executes the runs of this process."""
        self.dispatcher = dispatcher
        """Dispatches runs, and removes the data of erased runs."""

    def start(self) -> None:
        """Starts the executor, then dispatches queued runs; a failed start leaves nothing running.

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
        """Stops dispatching, gives running steps a short grace, then ends their runs as orphaned; may be repeated."""
        self.dispatcher.stop()
        self.executor.stop()

    def begin_run(
        self,
        run: RunRow,
        segment_id: str,
        steps: Sequence[StepRow],
        workflow: ResolvedWorkflow,
        parameters: JsonMapping,
        at: int,
    ) -> BegunSegment | None:
        """Begins a new run here, unless other runs wait for its slots; see `Runtime.begin_run`."""
        session = self.executor.sessions.current
        if session is None or not session.begins_runs or run.pii_redaction or has_inputs(workflow, parameters):
            return None
        first = steps_to_begin(workflow)
        if not first or (first[0].kind == AGENT and not self.dispatcher.has_room(session.engine.running)):
            return None
        engine, states = session.engine, StepStates(workflow.steps, run.run_id, segment_id, steps)
        # Further steps wait for slots once the segment executes.
        begun = FirstSteps(session.slots, run.key_id, first, workflow.parallel_steps, states, at)
        changes = states.take_changes()
        if not changes.approvals and not engine.reserve(segment_id):
            engine.call_soon(begun.release)
            return None

        def settle(committed: bool) -> None:
            if changes.approvals:
                return
            if not committed:
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
                workflow=workflow,
                step_states=states,
                redaction=None,
                decisions=[],
                begun=begun.names,
                client_reference=run.client_reference,
                budget=new_budget(workflow),
            )
            engine.confirm(segment_id, claimed)

        return BegunSegment(engine.owner, changes.events, changes.steps, changes.approvals, settle)

    def wake(self) -> None:
        """Has queued segments launched; see `Runtime.wake`."""
        self.dispatcher.launching.wake()

    def cancel(self, run_id: str) -> None:  # noqa: ARG002 - the request is in the run's row
        """Ends a running run; see `Runtime.cancel`."""
        self.executor.reap_now()

    def forget(self, run_id: str) -> None:  # noqa: ARG002 - the request is in the tables
        """Starts to remove the data of an erased run; see `Runtime.forget`."""
        self.dispatcher.removing.wake()

    def measured(self) -> list[Family]:
        """Returns the metrics of execution in this process."""
        return self.executor.measured()

    def upkeep(self) -> dict[str, int]:
        """Deletes expired rows; see `Runtime.upkeep`."""
        return self.dispatcher.upkeep()
