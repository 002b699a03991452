"""The port through which the runs service calls the runtime."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from backend.runs.parking import ApprovalRequests
from backend.runs.run_reservation import RunReservation
from backend.storage.tables.segments import StepRow
from backend.workflows.terms import WorkflowTerms


class Runtime(Protocol):
    """Executes the segments in the tables; none of these calls raises, and only `upkeep` waits."""

    def first_approval_requests(
        self, terms: WorkflowTerms, segment_id: str, steps: Sequence[StepRow], parameters: Mapping[str, Any], at: int
    ) -> ApprovalRequests | None:
        """Returns the approvals that a new run without a PII policy requests, if it does nothing else before.

        None where it does something else, or where other processes may take its segment. From any thread.
        """

    def reserve_run(self, key_id: str, terms: WorkflowTerms, parameters: Mapping[str, Any]) -> RunReservation | None:
        """Reserves step slots for a new run without a PII policy, where its first steps may begin at once.

        None where it has to wait, or other processes may take its segment. From any thread.
        """

    def wake(self) -> None:
        """Starts to launch queued segments; called after each commit that queued one, from any thread."""

    def cancel(self, run_id: str) -> None:
        """Ends a running run whose cancellation was requested: kills its steps, then closes it as cancelled."""

    def upkeep(self) -> Mapping[str, int]:
        """Deletes data past its retention, for some seconds; returns how much of each, and `more` where any is left."""

    def forget(self, run_id: str) -> None:
        """Starts the removals of an erased run in `pending_removals`."""
