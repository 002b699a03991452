"""Rules of notifications: their events, and how long one about the same thing is not repeated."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from backend.common.clock import DAY_MS, HOUR_MS

ANNOUNCED: Final = "notifications"
"""Name of the announcement to all processes that a message may be due."""


class NotificationEvent(StrEnum):
    """A change or a finding that operators are notified of."""

    RUN_FAILED = "run.failed"
    RUN_WAITING = "run.waiting_for_approval"
    SCHEDULE_SKIPPED = "schedule.skipped"
    SCHEDULE_FAILED = "schedule.failed"
    CERTIFICATE_EXPIRING = "certificate.expiring"
    DISK_LOW = "disk.low"
    KEY_EXPIRING = "key.expiring"


class AttemptOutcome(NamedTuple):
    """Outcome of an attempt: whether anybody took the message, and a word for a failure, even a partial one."""

    taken: bool
    error: str | None


RUN_EVENTS: Final = (NotificationEvent.RUN_FAILED, NotificationEvent.RUN_WAITING)

QUIET_MS: Final[Mapping[NotificationEvent, int]] = {
    NotificationEvent.SCHEDULE_SKIPPED: HOUR_MS,
    NotificationEvent.SCHEDULE_FAILED: HOUR_MS,
    NotificationEvent.CERTIFICATE_EXPIRING: DAY_MS,
    NotificationEvent.DISK_LOW: HOUR_MS,
    NotificationEvent.KEY_EXPIRING: DAY_MS,
}
"""Milliseconds in which an event about one thing is sent once; people replace certificates and keys within days."""
