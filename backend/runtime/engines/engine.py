"""What the runtime asks of an engine."""

from typing import Protocol


class Engine(Protocol):
    """Executes segments by id. It keeps no state that counts: whatever it forgets, the tables still hold."""

    def start(self) -> None:
        """Gets ready to take segments."""

    def stop(self) -> None:
        """Takes none any more, lets those that run go on for a short grace, then ends them and returns."""

    def submit(self, segment_id: str) -> None:
        """Has a queued segment executed soon; doing so twice is harmless. Does not wait; from any thread."""

    def cancel(self, segment_id: str) -> None:
        """Has a running segment kill its steps and close its run, for the reason that the run's row gives.

        Nothing happens where the engine does not execute it. Does not wait; from any thread; twice is harmless.
        """

    def executes(self, segment_id: str) -> bool:
        """Whether the engine has the segment, and so is the one to record its end; from any thread."""
