"""The runtime of a process that executes its runs itself."""

from collections.abc import Mapping, Sequence
from typing import Any

from backend.runs.runtime_port import BegunSegment
from backend.runtime.execution.first_steps import has_inputs, kind_of_first
from backend.runtime.scheduling.dispatcher import Dispatcher
from backend.runtime.worker.executor import Executor
from backend.runtime.worker.first_segment import begin_first_segment
from backend.storage.tables.runs import RunRow
from backend.storage.tables.segments import StepRow
from backend.workflows.terms import AGENT, WorkflowTerms
from telemetry import Family


class LocalRuntime:
    """Dispatches and executes runs in this process; see `backend.runs.runtime_port.Runtime`.

    Nothing happens before `start`; until then, and after `stop`, the calls of the runs service only leave work behind
    in the tables.
    """

    def __init__(self, executor: Executor, dispatcher: Dispatcher) -> None:
        self._executor = executor
        self._dispatcher = dispatcher

    def start(self) -> None:
        """Starts to execute, then takes up what is queued; a start that fails leaves nothing running.

        Raises:
            SandboxUnavailableError: steps cannot be isolated here as the settings ask; the message says what to do.
        """
        try:
            self._executor.start(on_free=self._dispatcher.segment_ended)
            self._dispatcher.start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Takes nothing new, lets steps go on for a short grace, and ends the rest as orphaned; may be repeated."""
        self._dispatcher.stop()
        self._executor.stop()

    def begin_run(
        self,
        run: RunRow,
        segment_id: str,
        steps: Sequence[StepRow],
        terms: WorkflowTerms,
        parameters: Mapping[str, Any],
        at: int,
    ) -> BegunSegment | None:
        """Begins a new run here, unless other runs wait for its slots; see `Runtime.begin_run`."""
        session = self._executor.sessions.present
        if session is None or session.sole_owner is None or run.pii_redaction or has_inputs(terms, parameters):
            return None
        kind = kind_of_first(terms)
        if kind is None or (kind == AGENT and not self._dispatcher.has_room(session.engine.running)):
            return None
        return begin_first_segment(session, run, segment_id, steps, terms, at)

    def wake(self) -> None:
        """Starts to launch queued segments; see `Runtime.wake`."""
        self._dispatcher.launching.wake()

    def cancel(self, run_id: str) -> None:  # noqa: ARG002 - the run's row says it all, and survives a crash
        """Ends a running run; see `Runtime.cancel`."""
        self._executor.sweep_now()

    def forget(self, run_id: str) -> None:  # noqa: ARG002 - its order is in the tables, and survives a crash
        """Starts to remove what an erased run left; see `Runtime.forget`."""
        self._dispatcher.removing.wake()

    def measured(self) -> list[Family]:
        """Returns what is executed here, as metrics."""
        return self._executor.measured()

    def upkeep(self) -> dict[str, int]:
        """Deletes what is past its time; see `Runtime.upkeep`."""
        return self._dispatcher.upkeep()
