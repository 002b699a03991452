"""What the runs service asks of the runtime that executes segments."""

from collections.abc import Mapping
from typing import Protocol


class Runtime(Protocol):
    """Executes the segments that the tables hold; none of these calls raises, and only `upkeep` waits."""

    def wake(self) -> None:
        """Tells that a segment was queued; called after the commit, often, and from any thread."""

    def cancel(self, run_id: str) -> None:
        """Tells that a running run shall end: kill its steps, then close it as cancelled."""

    def upkeep(self) -> Mapping[str, int]:
        """Erases and deletes what is past its time, for some seconds; returns how much of what, and `more`."""

    def forget(self, run_id: str) -> None:
        """Tells that a run was erased: what it left is removed soon, as `pending_removals` orders it."""
