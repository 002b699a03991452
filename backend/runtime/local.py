"""The runtime of a process that executes its runs itself."""

from collections.abc import Mapping, Sequence
from typing import Any

from backend.runs.parking import ApprovalRequests
from backend.runs.run_reservation import RunReservation
from backend.runtime.execution.first_approvals import first_approval_requests, has_inputs
from backend.runtime.scheduling.dispatcher import Dispatcher
from backend.runtime.worker.executor import Executor
from backend.runtime.worker.run_reservations import reserve_slots, starts_with_agents
from backend.storage.tables.segments import StepRow
from backend.workflows.terms import WorkflowTerms
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

    def first_approval_requests(
        self, terms: WorkflowTerms, segment_id: str, steps: Sequence[StepRow], parameters: Mapping[str, Any], at: int
    ) -> ApprovalRequests | None:
        """Returns the approvals that a new run requests first; see `Runtime.first_approval_requests`."""
        owner = self._executor.sessions.sole_owner
        if owner is None or not steps or has_inputs(terms, parameters):
            return None
        return first_approval_requests(terms, segment_id, steps, owner, at)

    def reserve_run(self, key_id: str, terms: WorkflowTerms, parameters: Mapping[str, Any]) -> RunReservation | None:
        """Reserves slots for a new run, unless other runs wait for some; see `Runtime.reserve_run`."""
        if not starts_with_agents(terms):
            return None
        session = self._executor.sessions.present
        if session is None or session.sole_owner is None or has_inputs(terms, parameters):
            return None
        return reserve_slots(session, key_id, terms) if self._dispatcher.has_room(session.engine.running) else None

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
