"""Statuses of a run and the moves between them. (DECISIONS.md, 5)."""

from collections.abc import Mapping
from typing import Final

QUEUED: Final = "queued"
RUNNING: Final = "running"
WAITING: Final = "waiting_for_approval"
COMPLETED: Final = "completed"
FAILED: Final = "failed"
CANCELLED: Final = "cancelled"

TRANSITIONS: Final[Mapping[str, tuple[str, ...]]] = {
    QUEUED: (RUNNING, FAILED, CANCELLED),
    RUNNING: (WAITING, COMPLETED, FAILED, CANCELLED),
    WAITING: (RUNNING, FAILED, CANCELLED),
    COMPLETED: (),
    FAILED: (),
    CANCELLED: (),
}

IN_FLIGHT: Final = tuple(status for status, after in TRANSITIONS.items() if after)
FINISHED: Final = tuple(status for status, after in TRANSITIONS.items() if not after)
TERMINAL: Final = frozenset(FINISHED)


def before(status: str) -> tuple[str, ...]:
    """The statuses that a run may move to `status` from."""
    return tuple(earlier for earlier, after in TRANSITIONS.items() if status in after)
