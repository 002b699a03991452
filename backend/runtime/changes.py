"""What a segment has to record next, gathered so that one transaction writes it."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from backend.outputs.store import NewOutput, add_outputs
from backend.runs.lifecycle import NewEvent, append_events
from backend.runtime import store
from backend.storage.database import Tx

Row = dict[str, Any]


@dataclass(slots=True)
class Changes:
    """Events in their order, and the rows that go with them; `counts` are added to the run's counters."""

    events: list[NewEvent] = field(default_factory=list)
    steps: dict[str, Row] = field(default_factory=dict)
    outputs: list[NewOutput] = field(default_factory=list)
    approvals: list[Row] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def __bool__(self) -> bool:
        return bool(self.events or self.steps or self.outputs or self.approvals)

    def event(self, event_type: str, step: str | None = None, /, **data: Any) -> None:
        """Adds an event."""
        self.events.append(NewEvent(event_type, step, data))

    def write(self, tx: Tx, run_id: str, segment_id: str, at: int) -> None:
        """Writes everything, events first.

        Raises:
            SegmentEndedError: the segment does not run any more; nothing was written.
        """
        append_events(tx, segment_id, at, self.events)
        store.save_steps(tx, run_id, self.steps.values())
        add_outputs(tx, self.outputs, at)
        store.add_approvals(tx, self.approvals)
        if self.counts:
            store.count(tx, run_id, self.counts)
