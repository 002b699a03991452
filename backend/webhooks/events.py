"""What webhooks tell of, and where a message stands, as tables and receivers spell it."""

from enum import StrEnum
from typing import Final

ANNOUNCED: Final = "webhooks"
"""What a change announces to the deliverers of all processes if a message may be due with it."""


class Event(StrEnum):
    """A change of a run; the value is the `type` of its message."""

    RUN_ENDED = "run.ended"
    RUN_WAITING = "run.waiting_for_approval"
    RUN_ERASED = "run.erased"


class DeliveryState(StrEnum):
    """Where a message to one webhook stands."""

    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"


class PausedReason(StrEnum):
    """Why a webhook is paused."""

    REQUESTED = "requested"
    UNREACHABLE = "unreachable"
    GONE = "gone"
