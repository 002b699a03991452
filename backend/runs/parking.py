"""Parks a run whose first segment only requests approvals, in the transaction that takes the segment.

Nothing lies between the take and the park that would have to be recorded first. So 7 statements in one transaction do
what 24 in two did, and each row is written once. (`python -m benchmarks`: starts of a workflow that begins with an
approval.)
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from backend.runs import parking_sql
from backend.runs.new_events import NewEvent, write_events
from backend.segment_state import ROOM
from backend.storage.database import Tx
from backend.storage.tables.segments import StepRow
from backend.webhooks.events import Event
from backend.webhooks.outbox_sql import add_messages

FIRST_EVENTS: Final = (NewEvent("segment.started", data={"ordinal": 1}), NewEvent("run.started"))
"""Those of a run's first segment."""
_ENDED: Final = NewEvent("segment.ended")


class ApprovalRequests(NamedTuple):
    """What a first segment records that only requests approvals, executed by `owner`; `steps` are by handle."""

    owner: str
    events: Sequence[NewEvent]
    steps: Mapping[str, StepRow]
    approvals: Sequence[Mapping[str, Any]]


def events_of_park(requests: Sequence[NewEvent]) -> list[NewEvent]:
    """Returns the events of a first segment that requests approvals and then ends."""
    return [*FIRST_EVENTS, *requests, _ENDED]


def begin_parked(
    tx: Tx, run_id: str, segment_id: str, owner: str, at: int, requests: Sequence[NewEvent], approvals: int
) -> bool:
    """Takes a run's first segment for `owner` and ends it with the events of its requests; its run waits.

    The caller writes the approvals, and the rows of their steps. False, with nothing written, where another process
    took the segment, or the run is over.
    """
    events = events_of_park(requests)
    if not parking_sql.pass_segment(tx, segment_id, owner, at, len(events)):
        return False
    has_webhooks = parking_sql.set_waiting(tx, run_id, at, approvals)
    write_events(tx, segment_id, 1, at, events)
    tx.announce(run_id)
    tx.announce(ROOM)
    if has_webhooks:
        add_messages(tx, Event.RUN_WAITING, run_id, at)
    return True
