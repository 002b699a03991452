"""What the runtime asks of an engine."""

from typing import Protocol


class Engine(Protocol):
    """Executes segments by id. It keeps no state that counts: whatever it forgets, the tables still hold."""

    def submit(self, segment_id: str) -> None:
        """Has a queued segment executed soon; doing so twice is harmless. Does not wait for it; from any thread.

        Raises:
            Exception: it was not taken, and is to be submitted again.
        """

    def cancel(self, segment_id: str) -> None:
        """Has a running segment kill its steps and close its run, for the reason that the run's row gives.

        Nothing happens where the engine does not execute it. Does not wait; from any thread; twice is harmless.
        """

    def executes(self, segment_id: str) -> bool:
        """Whether the engine has the segment, and so is the one to record its end; from any thread."""

    @property
    def generation(self) -> int:
        """Another number whenever the engine may have dropped segments that it had taken; from any thread."""
