"""States of runs, steps, segments and approvals, as tables spell them, and the moves between them (contract 13)."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class KeyPriority(StrEnum):
    """Class of a key's runs among those that wait, as tables spell it, the highest first."""

    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"


LOWER_CLASS_SHARE: Final = 8
"""Number of begun runs among which each lower class that waits has at least one."""


class RunStatus(StrEnum):
    """Status of a run, as tables and callers spell it."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting_for_approval"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


RUN_TRANSITIONS: Final[Mapping[RunStatus, tuple[RunStatus, ...]]] = {
    RunStatus.QUEUED: (RunStatus.RUNNING, RunStatus.FAILED, RunStatus.CANCELLED),
    RunStatus.RUNNING: (RunStatus.WAITING, RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED),
    RunStatus.WAITING: (RunStatus.RUNNING, RunStatus.FAILED, RunStatus.CANCELLED),
    RunStatus.COMPLETED: (),
    RunStatus.FAILED: (),
    RunStatus.CANCELLED: (),
}

RUN_IN_FLIGHT: Final = tuple(status for status, after in RUN_TRANSITIONS.items() if after)
RUN_TERMINAL: Final = tuple(status for status, after in RUN_TRANSITIONS.items() if not after)


def run_statuses_before(status: str) -> tuple[RunStatus, ...]:
    """Returns the statuses that a run may move to `status` from."""
    return tuple(earlier for earlier, after in RUN_TRANSITIONS.items() if status in after)


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


STEP_TRANSITIONS: Final[Mapping[StepStatus, tuple[StepStatus, ...]]] = {
    StepStatus.PENDING: (
        StepStatus.RUNNING,
        StepStatus.WAITING,
        # Its condition, or the summary of its approval, has no value.
        StepStatus.FAILED,
        # A resumed run reuses the step's result.
        StepStatus.COMPLETED,
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

STEP_UNFINISHED: Final = tuple(status for status, after in STEP_TRANSITIONS.items() if after)


class SegmentState(StrEnum):
    """State of a segment, as tables spell it."""

    QUEUED = "queued"
    RUNNING = "running"
    ENDED = "ended"


SEGMENT_TRANSITIONS: Final[Mapping[SegmentState, tuple[SegmentState, ...]]] = {
    # A segment whose run is closed before a worker takes it ends without having run.
    SegmentState.QUEUED: (SegmentState.RUNNING, SegmentState.ENDED),
    SegmentState.RUNNING: (SegmentState.ENDED,),
    SegmentState.ENDED: (),
}

DISPATCHED: Final = "segments"
"""Name announced once segments were dispatched, for workers that wait for them."""

QUEUED: Final = "queued"
"""Name announced once a running segment queued another run's, for launchers."""

ROOM: Final = "room"
"""Name announced once a segment ended or waits again, for launchers that wait for a free slot."""


class ApprovalState(StrEnum):
    """State of an approval, as tables and events spell it."""

    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"
    """Its deadline passed, and ends the run without a decision."""
    WITHDRAWN = "withdrawn"
    """The run was closed before anybody decided."""


APPROVAL_TRANSITIONS: Final[Mapping[ApprovalState, tuple[ApprovalState, ...]]] = {
    ApprovalState.PENDING: (
        ApprovalState.APPROVED,
        ApprovalState.REJECTED,
        ApprovalState.EXPIRED,
        ApprovalState.WITHDRAWN,
    ),
    ApprovalState.APPROVED: (),
    ApprovalState.REJECTED: (),
    ApprovalState.EXPIRED: (),
    ApprovalState.WITHDRAWN: (),
}

APPROVAL_DECIDED: Final = (ApprovalState.APPROVED, ApprovalState.REJECTED)

APPROVAL_SETTLED: Final = (*APPROVAL_DECIDED, ApprovalState.EXPIRED)
"""States from which the next segment of the run continues."""


class DeadlineAction(StrEnum):
    """Effect of a deadline that passes, as manifests, tables and events spell it; none approves."""

    REJECT = "reject"
    FAIL = "fail"
