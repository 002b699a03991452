"""The statuses of a step and the transitions between them (contract 13)."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class StepStatus(StrEnum):
    """Status of a step, as tables and callers spell it."""

    PENDING = "pending"
    RUNNING = "running"
    WAITING = "waiting_for_approval"
    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"
    BLOCKED = "blocked"


TRANSITIONS: Final[Mapping[StepStatus, tuple[StepStatus, ...]]] = {
    StepStatus.PENDING: (
        StepStatus.RUNNING,
        StepStatus.WAITING,
        StepStatus.SKIPPED,
        StepStatus.BLOCKED,
        StepStatus.CANCELLED,
    ),
    # A step whose attempt failed is pending until it is retried.
    StepStatus.RUNNING: (StepStatus.COMPLETED, StepStatus.FAILED, StepStatus.PENDING, StepStatus.CANCELLED),
    # A rejected approval blocks its step.
    StepStatus.WAITING: (StepStatus.COMPLETED, StepStatus.BLOCKED, StepStatus.CANCELLED),
    StepStatus.COMPLETED: (),
    StepStatus.FAILED: (),
    StepStatus.SKIPPED: (),
    StepStatus.CANCELLED: (),
    StepStatus.BLOCKED: (),
}

UNFINISHED: Final = tuple(status for status, after in TRANSITIONS.items() if after)
