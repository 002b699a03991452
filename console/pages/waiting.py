"""Number of waiting approvals, which every page shows, and the small page that open pages ask for it."""

import asyncio
from typing import Final

from console.visit import PageResult, UserServices, View, Visit
from contract.refusals import Refusal
from contract.roles import may
from workflow_api.v1.reviews_pb2 import CountPendingApprovalsRequest, CountPendingApprovalsResponse
from workflow_api.v1.users_pb2 import User

WAITING: Final = "/waiting"
"""Path of the page, which an open page asks for by itself."""

_COUNT: Final = "ReviewsService/CountPendingApprovals"
_SECONDS: Final = 1.0
"""Time for which a page waits for the number."""


async def show(_: Visit) -> PageResult:
    """Shows what every page shows, without a page's content."""
    return View("waiting.html")


async def count_waiting(user: User, services: UserServices) -> int | None:
    """Returns the number of approvals that wait; None for a user who decides none, or where it cannot be read."""
    if not may(user, _COUNT):
        return None
    try:
        async with asyncio.timeout(_SECONDS):
            answer: CountPendingApprovalsResponse = await services.call(
                _COUNT, CountPendingApprovalsRequest(total_only=True)
            )
    except (Refusal, TimeoutError):
        return None
    return answer.total
