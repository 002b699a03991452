"""The overview: pending approvals, newest runs, and for administrators the deployment."""

import asyncio
from typing import Final

from edge.console import formatting
from edge.console.visit import ADMINISTRATORS, ALL_ROLES, Answered, Page, View, Visit
from workflow_api.v1.deployment_pb2 import Deployment, GetDeploymentRequest
from workflow_api.v1.reviews_pb2 import CountPendingApprovalsRequest
from workflow_api.v1.runs_pb2 import ListRunsRequest

_NEWEST: Final = 10


async def show(visit: Visit) -> Answered:
    """Shows the overview."""
    counted, runs, deployment = await asyncio.gather(
        visit.services.call("ReviewsService/CountPendingApprovals", CountPendingApprovalsRequest()),
        visit.services.call("RunsService/ListRuns", ListRunsRequest(page_size=_NEWEST)),
        _deployment(visit),
    )
    rows = [(run, formatting.run_badge(run.status)) for run in runs.items]
    return View("overview/overview.html", {"waiting": counted.total, "rows": rows, "deployment": deployment})


async def _deployment(visit: Visit) -> Deployment | None:
    if visit.user.role not in ADMINISTRATORS:
        return None
    deployment: Deployment = await visit.services.call("DeploymentService/GetDeployment", GetDeploymentRequest())
    return deployment


PAGES: Final[tuple[Page, ...]] = (Page("GET", "/", ALL_ROLES, show),)
