"""The statuses of a run and the transitions between them (contract 13.1)."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class RunStatus(StrEnum):
    """Status of a run, as tables and callers spell it."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting_for_approval"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


TRANSITIONS: Final[Mapping[RunStatus, tuple[RunStatus, ...]]] = {
    RunStatus.QUEUED: (RunStatus.RUNNING, RunStatus.FAILED, RunStatus.CANCELLED),
    RunStatus.RUNNING: (RunStatus.WAITING, RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED),
    RunStatus.WAITING: (RunStatus.RUNNING, RunStatus.FAILED, RunStatus.CANCELLED),
    RunStatus.COMPLETED: (),
    RunStatus.FAILED: (),
    RunStatus.CANCELLED: (),
}

IN_FLIGHT: Final = tuple(status for status, after in TRANSITIONS.items() if after)
FINISHED: Final = tuple(status for status, after in TRANSITIONS.items() if not after)
TERMINAL: Final = frozenset(FINISHED)


def before(status: str) -> tuple[RunStatus, ...]:
    """Returns the statuses that a run may move to `status` from."""
    return tuple(earlier for earlier, after in TRANSITIONS.items() if status in after)
