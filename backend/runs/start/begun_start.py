"""Writes a new run as one whose first steps have begun, in the transaction of its start.

A place for it was found in this process, so nothing lies between the start and `step.started` that would have to be
recorded first. That saves a round of the launcher, its commit, that of the segment's claim and the reads of both: of
four commits of a one-step run two are left. (`python -m benchmarks`: a one-step run.)
"""

from backend.run_status import RunStatus
from backend.runs.begun_run import Begun
from backend.runs.new_events import NewEvent, write_events
from backend.runs.start import sql
from backend.runs.start.new_run import NewRun
from backend.segment_state import SegmentState
from backend.storage.database import Tx


def add_begun_run(tx: Tx, new: NewRun, begun: Begun, at: int) -> None:
    """Writes a run with its first segment, which executes."""
    events = [NewEvent("segment.started", data={"ordinal": 1}), NewEvent("run.started"), *begun.events]
    running = {"status": RunStatus.RUNNING, "started_at": at}
    taken = {
        "state": SegmentState.RUNNING,
        "owner": begun.owner,
        "started_at": at,
        "ended_at": None,
        "last_seq": len(events),
    }
    steps = [begun.steps.get(row["step"], row) for row in new.steps]
    sql.add_run(tx, new.run | running, steps, new.segment | taken, begun=True)
    write_events(tx, new.segment["segment_id"], 1, at, events)
    tx.announce(new.run_id)
