"""Statuses of a run and the moves between them. (DECISIONS.md, 5)."""

from collections.abc import Mapping
from typing import Final

from sqlalchemy import ColumnElement, literal_column

from backend.runs.tables import runs

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

TERMINAL: Final = frozenset(status for status, after in TRANSITIONS.items() if not after)


def may_become(status: str) -> ColumnElement[bool]:
    """SQL condition on `runs`: the run may move to `status` from where it stands."""
    return status_in(*(before for before, after in TRANSITIONS.items() if status in after))


def status_in(*statuses: str) -> ColumnElement[bool]:
    """SQL condition on `runs`, with the statuses in the text so that a partial index can serve it."""
    return runs.c.status.in_([literal_column(f"'{status}'") for status in statuses])


IN_FLIGHT: Final = status_in(QUEUED, RUNNING, WAITING)
