"""Events that have no place in their segment yet, and how they are written once they have."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from backend import json_text
from backend.runs import lifecycle_sql
from backend.storage.database import Tx


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event that has no seq yet."""

    type: str
    step: str | None = None
    data: Mapping[str, Any] | None = None


def write_events(tx: Tx, segment_id: str, first_seq: int, at: int, new: Sequence[NewEvent]) -> None:
    """Writes events with seqs that the segment was raised by."""
    lifecycle_sql.add_events(tx, event_rows(segment_id, first_seq, at, new))


def event_rows(segment_id: str, first_seq: int, at: int, new: Sequence[NewEvent]) -> list[dict[str, object]]:
    """Returns the rows of events with such seqs."""
    return [
        {
            "segment_id": segment_id,
            "seq": seq,
            "type": event.type,
            "at": at,
            "step": event.step,
            "data": json_text.write(event.data) if event.data else "{}",
        }
        for seq, event in enumerate(new, first_seq)
    ]
