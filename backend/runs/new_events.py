"""Events that have no place in their segment yet, and how they are written once they have."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from backend import json_text
from backend.runs import lifecycle_sql
from backend.storage.database import Tx
from backend.storage.tables.segments import EventRow


class NewEvent(NamedTuple):
    """An event that has no seq yet."""

    type: str
    step: str | None = None
    data: Mapping[str, Any] | None = None


def write_events(tx: Tx, segment_id: str, first_seq: int, at: int, new: Sequence[NewEvent]) -> None:
    """Writes events with seqs that the segment was raised by."""
    lifecycle_sql.add_events(tx, event_rows(segment_id, first_seq, at, new))


def event_rows(segment_id: str, first_seq: int, at: int, new: Sequence[NewEvent]) -> list[EventRow]:
    """Returns the rows of events with such seqs."""
    return [
        EventRow(
            segment_id=segment_id,
            seq=seq,
            type=kind,
            at=at,
            step=step,
            data=json_text.write(data) if data else "{}",
        )
        for seq, (kind, step, data) in enumerate(new, first_seq)
    ]
