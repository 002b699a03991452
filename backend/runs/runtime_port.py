"""What the runs service asks of the runtime that executes segments."""

from typing import Protocol


class Runtime(Protocol):
    """Executes the segments that the tables hold; none of these calls waits or raises."""

    def wake(self) -> None:
        """Tells that a segment was queued; called after the commit, often, and from any thread."""

    def cancel(self, run_id: str) -> None:
        """Tells that a running run shall end: kill its steps, then close it as cancelled."""

    def forget(self, run_id: str) -> None:
        """Removes whatever the runtime keeps on disk for a run that has finished."""
