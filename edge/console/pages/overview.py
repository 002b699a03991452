"""The overview: newest runs, pending approvals for those who decide, and the deployment for those who see it."""

import asyncio
from typing import Final

from edge.console.rendering import formatting
from edge.console.visit import ALL_ROLES, Page, PageResult, View, Visit
from workflow_api.v1.deployment_pb2 import Deployment, GetDeploymentRequest
from workflow_api.v1.reviews_pb2 import CountPendingApprovalsRequest
from workflow_api.v1.runs_pb2 import ListRunsRequest

_NEWEST: Final = 10


async def show(visit: Visit) -> PageResult:
    """Shows the overview."""
    decides = visit.may("RunsService/DecideApproval")
    waiting, runs, deployment = await asyncio.gather(
        _waiting(visit) if decides else _nothing(),
        visit.services.call("RunsService/ListRuns", ListRunsRequest(page_size=_NEWEST)),
        _deployment(visit),
    )
    rows = [(run, formatting.run_badge(run.status)) for run in runs.items]
    return View(
        "overview/overview.html", {"decides": decides, "waiting": waiting, "rows": rows, "deployment": deployment}
    )


async def _waiting(visit: Visit) -> int:
    counted = await visit.services.call("ReviewsService/CountPendingApprovals", CountPendingApprovalsRequest())
    return int(counted.total)


async def _nothing() -> int:
    return 0


async def _deployment(visit: Visit) -> Deployment | None:
    if not visit.may("DeploymentService/GetDeployment"):
        return None
    deployment: Deployment = await visit.services.call("DeploymentService/GetDeployment", GetDeploymentRequest())
    return deployment


PAGES: Final[tuple[Page, ...]] = (Page("GET", "/", ALL_ROLES, show),)
