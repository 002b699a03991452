"""Decisions on approvals, as the pages that take them record them."""

from typing import Final

from console.visit import Services
from contract.refusals import Refusal
from workflow_api.v1.runs_pb2 import DecideApprovalRequest, DecideApprovalResponse

DECISIONS: Final = {"approve": True, "reject": False}
"""What a form sends, and whether that approves."""


async def decide(services: Services, approval_id: str, decision: str, comment: str) -> DecideApprovalResponse | None:
    """Records one of `DECISIONS`; returns None where the approval is not pending any more.

    Raises:
        Refusal: as `Services.call`, for any other reason.
    """
    request = DecideApprovalRequest(approval_id=approval_id, approve=DECISIONS[decision], comment=comment or None)
    try:
        decided: DecideApprovalResponse = await services.call("RunsService/DecideApproval", request)
    except Refusal as refusal:
        if refusal.code == "not_found" or _is_about(refusal, "approval_id"):
            return None
        raise
    return decided


def _is_about(refusal: Refusal, name: str) -> bool:
    problems = refusal.details
    return (
        refusal.code == "invalid_request"
        and isinstance(problems, list)
        and [problem["name"] for problem in problems] == [name]
    )
