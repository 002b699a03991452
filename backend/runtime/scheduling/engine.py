"""The port through which segments are scheduled; `backend.runtime.engines` has its implementations."""

from typing import Protocol


class Engine(Protocol):
    """Executes segments by id. It keeps no state of its own that counts: what it loses is still in the tables."""

    def submit(self, segment_id: str) -> None:
        """Executes a queued segment soon, once however often it is submitted. Does not wait for it; from any thread.

        Raises:
            Exception: it was not accepted, and must be submitted again.
        """

    def cancel(self, segment_id: str) -> None:
        """Makes a running segment kill its steps and close its run, with the outcome that the run's row says.

        Does nothing where the engine does not execute it. Does not wait; from any thread; may be repeated.
        """

    def executes(self, segment_id: str) -> bool:
        """Returns whether the engine has the segment, and so will record its end; from any thread."""

    @property
    def generation(self) -> int:
        """A number that changes whenever the engine may have lost segments that it had accepted; from any thread."""
