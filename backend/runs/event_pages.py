"""Pages of the events of a segment.

Events are only ever added, so a page is the same for as long as the segment's last number is. What keys read is kept
while it is asked for: of 200 events, reading and making messages of them is four fifths of the time.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from backend.runs import messages, sql
from backend.storage.database import Tx
from backend.storage.tables.segments import SegmentRow
from contract.recent_values import RecentValues
from workflow_api.v1.runs_pb2 import Event, ListRunEventsRequest

_MOST_BYTES: Final = 32_000_000


class _Page(NamedTuple):
    segment_id: str
    last_seq: int
    after_seq: int
    limit: int


class EventPages:
    """Reads pages within a transaction that has found the run and its segments, so that nothing erased is returned."""

    def __init__(self) -> None:
        self._pages = RecentValues[_Page, tuple[Event, ...]](_size, _MOST_BYTES)

    def read(self, tx: Tx, segment: SegmentRow, after_seq: int, limit: int) -> Sequence[Event]:
        """Returns events after a number, as keys may see them."""
        page = _Page(segment.segment_id, segment.last_seq, after_seq, limit)
        events = self._pages.get(page)
        if events is None:
            events = tuple(map(messages.event, sql.events_after(tx, segment.segment_id, after_seq, limit)))
            self._pages.put(page, events)
        return events

    def read_for_people(
        self, tx: Tx, request: ListRunEventsRequest, segment: SegmentRow, after_seq: int, limit: int
    ) -> Sequence[Event]:
        """Returns those that the request chooses, with who made each decision, which the public API never names."""
        rows = sql.chosen_events_after(tx, segment.segment_id, after_seq, limit, request.types, request.step)
        decided = any(row.type == messages.DECIDED_EVENT for row in rows)
        deciders = sql.deciders(tx, request.run_id) if decided else {}
        return [messages.event_for_people(row, deciders) for row in rows]


def _size(events: Sequence[Event]) -> int:
    return 256 + sum(256 + event.ByteSize() for event in events)
