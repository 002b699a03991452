"""The port through which the runs service calls the runtime."""

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
    """Records of the beginning of a run's first segment, of `owner`: events, changed steps by handle, and approvals.

    A segment that requests approvals does nothing else, and has ended. `settle` is called once, from any thread, with
    whether the transaction holds: the segment is executed, or releases what it holds.
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
        terms: ResolvedWorkflow,
        parameters: JsonMapping,
        at: int,
    ) -> BegunSegment | None:
        """Begins the first segment of a new run, in the transaction that writes the run.

        None where the run is to be queued: it has a PII policy or inputs to copy, it has to wait for others, or other
        processes may take its segment.
        """

    def wake(self) -> None:
        """Starts to launch queued segments; called after each commit that queued one, from any thread."""

    def cancel(self, run_id: str) -> None:
        """Ends a running run whose cancellation was requested: kills its steps, then closes it as cancelled."""

    def upkeep(self) -> Mapping[str, int]:
        """Deletes data past its retention, for some seconds; returns how much of each, and `more` where any is left."""

    def forget(self, run_id: str) -> None:
        """Starts the removals of an erased run in `pending_removals`."""
