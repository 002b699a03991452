"""A new run whose first steps begin in the transaction of its start: the room reserved for it, and what it writes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from backend.runs.new_events import NewEvent
from backend.storage.tables.runs import RunRow
from backend.storage.tables.segments import StepRow


@dataclass(frozen=True, slots=True)
class BegunRun:
    """What a run's first segment begins with, executed by `owner`: events, and by handle the steps' rows."""

    owner: str
    events: Sequence[NewEvent]
    steps: Mapping[str, Mapping[str, Any]]


class RunReservation(Protocol):
    """Step slots that a runtime holds for one new run until `settle`, which uses them or releases them."""

    def begin(self, run: RunRow, segment_id: str, steps: Sequence[StepRow], at: int) -> BegunRun | None:
        """Returns what the run begins with, to be written with it; None where it must be queued after all.

        In the transaction that writes the run, which may be repeated with another run.
        """

    def settle(self, run_id: str | None) -> None:
        """Executes the run that was committed, None for none; called once, from any thread."""
