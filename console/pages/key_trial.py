"""The page that answers whether a call with a key would pass."""

from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

from console.keys.details import key_details
from console.keys.trial import Verdict, is_start, route_choices, verdicts
from console.pages.workflows import every_workflow
from console.rendering.times import now_ms
from console.visit import PageResult, View, Visit
from contract.call_trials import TrialCall
from contract.refusals import Refusal
from contract.routes import BASE
from workflow_api.v1.deployment_pb2 import GetDeploymentRequest
from workflow_api.v1.keys_pb2 import GetKeyRequest
from workflow_api.v1.workflows_pb2 import GetWorkflowForKeyRequest

_FIELDS: Final = ("address", "at", "route", "workflow_id")
_FORM: Final = "%Y-%m-%dT%H:%M"
_ANY: Final = "x"
_SERVICES_FAIL: Final = 500


async def show(visit: Visit) -> PageResult:
    """Shows the form; with a route, what the checks of the edge say to that call, and the workflow's own."""
    asked = {name: visit.query.get(name, "").strip() for name in _FIELDS}
    record = await visit.services.call("KeysService/GetKey", GetKeyRequest(key_id=visit.path["key_id"]))
    now = now_ms()
    at_ms, problem = _time(asked["at"], now)
    found: list[Verdict] = []
    if asked["route"] and not problem:
        method, _, template = asked["route"].partition(" ")
        path = BASE + template.replace("{workflow_id}", quote(asked["workflow_id"] or _ANY, safe=""))
        deployment = await visit.services.call("DeploymentService/GetDeployment", GetDeploymentRequest())
        call = TrialCall(method, path, asked["address"], at_ms)
        found = await verdicts(record, deployment, call, visit.try_call)
        if asked["workflow_id"] and found[-1].passed:
            found.append(await _workflow(visit, asked["workflow_id"], starts=is_start(method, path)))
    shown = {
        "key": key_details(record, now),
        "asked": {**asked, "at": asked["at"] or datetime.fromtimestamp(now / 1000, UTC).strftime(_FORM)},
        "problem": problem,
        "routes": route_choices(),
        "workflows": [("", "none"), *((each.workflow_id, each.name) for each in await every_workflow(visit))],
        "verdicts": found,
    }
    return View("keys/try.html", shown, status=400 if problem else 200)


def _time(text: str, now: int) -> tuple[int, str]:
    """Returns the time of a call in UTC, and what is wrong with its text."""
    try:
        at = datetime.strptime(text, _FORM).replace(tzinfo=UTC) if text else None
    except ValueError:
        return now, "must be a time such as 2026-09-24T10:15"
    return now if at is None else round(at.timestamp() * 1000), ""


async def _workflow(visit: Visit, workflow_id: str, *, starts: bool) -> Verdict:
    """Returns whether the service gives the key access to a workflow, and for a start whether it is ready."""
    request = GetWorkflowForKeyRequest(workflow_id=workflow_id, key_id=visit.path["key_id"])
    asks = "May the key start the workflow, and is it ready?" if starts else "May the key use the workflow?"
    try:
        workflow = await visit.services.call("WorkflowsService/GetWorkflowForKey", request)
    except Refusal as refusal:
        if refusal.status >= _SERVICES_FAIL:
            raise
        return Verdict(asks, False, refusal.message)
    reasons = " ".join(workflow.readiness.reasons) if starts else ""
    return Verdict(asks, not reasons, reasons)
