"""Overview page: newest runs, pending approvals for people who decide, and the deployment's health."""

import asyncio
from typing import Final

from console.rendering import formatting
from console.visit import PageResult, View, Visit
from workflow_api.v1.deployment_health_pb2 import DeploymentHealth, GetDeploymentHealthRequest, HealthFinding
from workflow_api.v1.deployment_pb2 import Deployment, GetDeploymentRequest
from workflow_api.v1.reviews_pb2 import CountPendingApprovalsRequest
from workflow_api.v1.runs_pb2 import ListRunsRequest

_NEWEST: Final = 10


async def show(visit: Visit) -> PageResult:
    """Shows the overview."""
    decides = visit.may("RunsService/DecideApproval")
    waiting, runs, deployment, findings = await asyncio.gather(
        _pending_approvals(visit) if decides else _no_approvals(),
        visit.services.call("RunsService/ListRuns", ListRunsRequest(page_size=_NEWEST)),
        _deployment(visit),
        _findings(visit),
    )
    rows = [(run, formatting.run_badge(run.status)) for run in runs.items]
    context = {
        "decides": decides,
        "waiting": waiting,
        "rows": rows,
        "deployment": deployment,
        "findings": findings,
    }
    return View("overview/overview.html", context)


async def _pending_approvals(visit: Visit) -> int:
    counted = await visit.services.call("ReviewsService/CountPendingApprovals", CountPendingApprovalsRequest())
    return int(counted.total)


async def _no_approvals() -> int:
    return 0


async def _deployment(visit: Visit) -> Deployment | None:
    if not visit.may("DeploymentService/GetDeployment"):
        return None
    deployment: Deployment = await visit.services.call("DeploymentService/GetDeployment", GetDeploymentRequest())
    return deployment


async def _findings(visit: Visit) -> list[HealthFinding]:
    """Returns findings about health, critical ones first; none for people who may not see the health."""
    rpc = "DeploymentHealthService/GetDeploymentHealth"
    if not visit.may(rpc):
        return []
    health: DeploymentHealth = await visit.services.call(rpc, GetDeploymentHealthRequest())
    return list(health.findings)
