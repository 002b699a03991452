"""The port through which segments are scheduled; `backend.runtime.engines` has its implementations."""

from collections.abc import Set as AbstractSet
from typing import Protocol


class Engine(Protocol):
    """Executes segments by id. It keeps no state of its own that counts: what it loses is still in the tables."""

    def submit(self, segment_id: str, hand_over: int) -> None:
        """Executes a queued segment soon, once however often it is submitted. Does not wait for it; from any thread.

        `hand_over` numbers the hand-overs of the segment, from 1: a segment that did not begin is handed over again.

        Raises:
            Exception: it was not accepted, and must be submitted again.
        """

    def cancel(self, segment_id: str) -> None:
        """Makes a running segment kill its steps and close its run, with the outcome that the run's row says.

        Does nothing where the engine does not execute it. Does not wait; from any thread; may be repeated.
        """

    def executes(self, segment_id: str) -> bool:
        """Returns whether the engine has the segment, and so will record its end; from any thread."""

    def claimed(self) -> AbstractSet[str]:
        """Returns the segments that it executes and has set running; from any thread."""
