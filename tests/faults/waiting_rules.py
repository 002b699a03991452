"""Rules of callers that wait: held answers and streams of events."""

from collections.abc import Iterator
from typing import Any, Final

from tests.faults.journal import Call, Record
from tests.faults.state import TERMINAL, State

# An edge gives up a backend that does not answer within `edge.backend_seconds`, 15 s, and may try once more.
_LATE_SECONDS: Final = 30.0


def held_too_long(record: Record, _: State) -> Iterator[str]:
    """A call ends with an answer or a broken connection, not after what it may wait."""
    for call in record.of("wait_for_run", "wait_for_events"):
        if call.answered - call.sent > call.about["wait"] + _LATE_SECONDS:
            yield f"{call}: after {call.answered - call.sent:.1f} s"
    for call in record.of("follow_events"):
        if call.code == "TimeoutError":
            yield f"{call}: nothing came, not even a comment"


def spoiled_streams(record: Record, state: State) -> Iterator[str]:
    """A stream has every event after the one that it begins behind, in order, and ends with the end of its run."""
    order = _segments(record)
    for call in record.of("follow_events"):
        events = call.said.get("events", [])
        before = _position(call)
        for segment, seq, *_ in events:
            if segment == before[0]:
                right = seq == before[1] + 1
            else:
                right = seq == 1 and _follows(order.get(call.about["run"], {}), before[0], segment)
            if not right:
                yield f"{call}: {seq} of {segment} after {before[1]} of {before[0]}"
            before = segment, seq
        end = call.said.get("end")
        if end is None:
            continue
        row = state.runs.get(call.about["run"])
        if end not in TERMINAL or row is None or row.status != end:
            yield f"{call}: ended as {end}, is {row}"
        shown = state.shown_events.get(before[0] or "")
        if shown and before[1] != shown[-1][0]:
            yield f"{call}: ended at {before[1]} of {before[0]}, which has {shown[-1][0]}"


def _position(call: Call) -> tuple[str | None, int]:
    if call.about["last"] is None:
        return None, 0
    segment, _, seq = call.about["last"].rpartition(":")
    return segment, int(seq)


def _segments(record: Record) -> dict[str, dict[str, int]]:
    """The ordinals of segments by run, as pages told them."""
    found: dict[str, dict[str, int]] = {}
    for call in record.acknowledged("read_events", "wait_for_events"):
        for segment_id, ordinal, *_ in call.said.get("segments", []):
            found.setdefault(call.about["run"], {})[segment_id] = ordinal
    return found


def _follows(ordinals: dict[str, int], before: str | None, segment: str) -> bool:
    """Whether a segment is the next one, as far as it is known."""
    if segment not in ordinals:
        return True
    if before is None:
        return ordinals[segment] == min(ordinals.values())
    return before not in ordinals or ordinals[segment] == ordinals[before] + 1


def streamed(record: Record) -> Iterator[tuple[Call, str, list[Any]]]:
    """The events of streams as those of pages are: with their segments, each `[seq, type, digest]`."""
    for call in record.of("follow_events"):
        for segment, *event in call.said.get("events", []):
            yield call, segment, event
