"""The states of a segment and the transitions between them."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class SegmentState(StrEnum):
    """State of a segment, as tables spell it."""

    QUEUED = "queued"
    RUNNING = "running"
    ENDED = "ended"


TRANSITIONS: Final[Mapping[SegmentState, tuple[SegmentState, ...]]] = {
    # One whose run is closed before it is taken ends without having run.
    SegmentState.QUEUED: (SegmentState.RUNNING, SegmentState.ENDED),
    SegmentState.RUNNING: (SegmentState.ENDED,),
    SegmentState.ENDED: (),
}

HANDED_OVER: Final = "segments"
"""Name announced once segments were handed over, for workers that wait for some."""

ROOM: Final = "room"
"""Name announced once a segment ended or waits again, for launchers that wait for room."""
