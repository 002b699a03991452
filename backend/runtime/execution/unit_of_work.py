"""The changes that a segment records next, in one transaction."""

from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from backend.outputs.sql import NewOutput, StepFile, add_outputs, add_shared_files
from backend.runs.lifecycle import append_events
from backend.runs.lifecycle_sql import add_approvals
from backend.runs.new_events import NewEvent
from backend.runtime.execution import sql
from backend.runtime.redaction import manifest_sql
from backend.runtime.redaction.stages import StageCounts
from backend.storage.database import Tx
from backend.storage.tables.outputs import SharedFileRow

Row = dict[str, Any]


@dataclass(slots=True)
class UnitOfWork:
    """Events in their order, and the rows that change with them; `counts` are added to the run's counters.

    `redacted` are counts of sweeps, for the run's redaction manifest; `warnings` are added to the run's.
    """

    events: list[NewEvent] = field(default_factory=list)
    steps: dict[str, Row] = field(default_factory=dict)
    files: list[StepFile] = field(default_factory=list)
    approvals: list[Row] = field(default_factory=list)
    counts: defaultdict[str, int] = field(default_factory=partial(defaultdict, int))
    redacted: list[StageCounts] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.events or self.steps or self.files or self.approvals or self.redacted)

    def event(self, event_type: str, step: str | None = None, /, **data: Any) -> None:
        """Adds an event."""
        self.events.append(NewEvent(event_type, step, data))

    def write(self, tx: Tx, run_id: str, segment_id: str, at: int) -> None:
        """Writes everything, events first.

        Raises:
            SegmentEndedError: the segment does not run; nothing was written.
        """
        append_events(tx, segment_id, at, self.events)
        sql.save_steps(tx, run_id, self.steps.values())
        add_approvals(tx, self.approvals)
        add_outputs(tx, [file for file in self.files if isinstance(file, NewOutput)], at)
        add_shared_files(tx, [file for file in self.files if isinstance(file, SharedFileRow)])
        if self.counts:
            sql.count(tx, run_id, self.counts)
        if self.warnings:
            sql.add_warnings(tx, run_id, self.warnings)
        for found in self.redacted:
            manifest_sql.add_counts(tx, run_id, found)
