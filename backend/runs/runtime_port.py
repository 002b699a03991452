"""The port through which the runs service calls the runtime."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from backend.runs.begun_run import Place
from backend.runs.parking import Asked
from backend.storage.tables.segments import StepRow
from backend.workflows.terms import WorkflowTerms


class Runtime(Protocol):
    """Executes the segments in the tables; none of these calls raises, and only `upkeep` waits."""

    def asked_first(
        self, terms: WorkflowTerms, segment_id: str, steps: Sequence[StepRow], parameters: Mapping[str, Any], at: int
    ) -> Asked | None:
        """Returns what a new run without a PII policy asks for, where it does nothing else before it is parked.

        None where it does something else, or where other processes may take its segment. From any thread.
        """

    def place_for(self, key_id: str, terms: WorkflowTerms, parameters: Mapping[str, Any]) -> Place | None:
        """Returns a place for a new run without a PII policy, where its first steps may begin at once.

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
