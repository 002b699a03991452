"""Protocol by which the runs service calls the runtime: begin, wake, cancel, retention and removals."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from backend.common.json_text import JsonMapping
from backend.services.runs.change_records import NewEvent
from backend.services.workflows.resolved_workflow import ResolvedWorkflow
from backend.storage.tables.runs import RunRow
from backend.storage.tables.segments import StepRow


@dataclass(frozen=True, slots=True)
class BegunSegment:
    """A first segment that begins with its run, owned by `owner`: events, changed steps by handle, and approvals.

    A segment that requests approvals has ended with them. `settle` is called once, from any thread, and says whether
    the transaction was committed: then the segment is executed, else it releases its slots.
    """

    owner: str
    events: Sequence[NewEvent]
    steps: Mapping[str, JsonMapping]
    approvals: Sequence[JsonMapping]
    settle: Callable[[bool], None]


class Runtime(Protocol):
    """Executes the segments in the tables; none of these calls raises, and only `upkeep` waits."""

    def begin_run(
        self,
        run: RunRow,
        segment_id: str,
        steps: Sequence[StepRow],
        workflow: ResolvedWorkflow,
        parameters: JsonMapping,
        at: int,
    ) -> BegunSegment | None:
        """Begins the first segment of a new run, in the transaction that writes the run.

        Returns None if the run must be queued: it has a PII policy or inputs to copy, no slot is free, or other
        processes may claim its segment.
        """

    def wake(self) -> None:
        """Wakes the launcher of queued segments; called after each commit that queued a segment, from any thread."""

    def cancel(self, run_id: str) -> None:
        """Ends a running run whose cancellation was requested: kills its steps, then closes it as cancelled."""

    def upkeep(self) -> Mapping[str, int]:
        """Deletes expired data for some seconds; returns the number deleted by kind, and `more` if any is left."""

    def forget(self, run_id: str) -> None:
        """Starts the removals that `pending_removals` lists, after the erasure of a run."""
