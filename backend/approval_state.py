"""The states of an approval and the transitions between them."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class ApprovalState(StrEnum):
    """State of an approval, as tables and events spell it."""

    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"
    WITHDRAWN = "withdrawn"
    """Its run was closed before anybody decided."""


TRANSITIONS: Final[Mapping[ApprovalState, tuple[ApprovalState, ...]]] = {
    ApprovalState.PENDING: (ApprovalState.APPROVED, ApprovalState.REJECTED, ApprovalState.WITHDRAWN),
    ApprovalState.APPROVED: (),
    ApprovalState.REJECTED: (),
    ApprovalState.WITHDRAWN: (),
}

DECIDED: Final = (ApprovalState.APPROVED, ApprovalState.REJECTED)
