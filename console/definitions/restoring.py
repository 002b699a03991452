"""Page that goes back to a former version of a workflow, with what would change shown first."""

from typing import Any, Final

from console.definitions.difference import difference_lines
from console.definitions.kinds import WORKFLOW
from console.definitions.versions import ID, NO_VERSION, NOT_THERE, missing, version_of
from console.visit import PageResult, Redirect, View, Visit
from contract.refusals import Refusal
from workflow_api.v1.definitions_pb2 import RestoreWorkflowVersionRequest, RestoreWorkflowVersionResponse

_RPC: Final = "DefinitionsService/RestoreWorkflowVersion"
_CHANGED: Final = "Somebody saved another version meanwhile. Review what would change now."


async def ask(visit: Visit) -> PageResult:
    """Shows what going back to the version of the query would change."""
    return await _asked(visit, visit.query.get("version", ""), "")


async def restore(visit: Visit) -> PageResult:
    """Goes back to a version, unless there is a newer one than was shown."""
    version, expected = version_of(visit.sent("version")), version_of(visit.sent("expected"))
    if version is None or expected is None:
        return missing(WORKFLOW, NO_VERSION)
    request = RestoreWorkflowVersionRequest(workflow=visit.path[ID], version=version, expected_version=expected)
    try:
        done: RestoreWorkflowVersionResponse = await visit.services.call(_RPC, request)
    except Refusal as refusal:
        if refusal.code in NOT_THERE:
            return missing(WORKFLOW, refusal.message)
        if not _names_expected_version(refusal):
            raise
        return await _asked(visit, visit.sent("version"), _CHANGED)
    made = done.workflow.version
    return Redirect(
        WORKFLOW.page_of(done.workflow.id), f"Version {made} is active, with all that version {version} used."
    )


def _names_expected_version(refusal: Refusal) -> bool:
    problems: Any = refusal.details if isinstance(refusal.details, list) else ()
    return refusal.code == "invalid_request" and any(each["name"] == "expected_version" for each in problems)


async def _asked(visit: Visit, asked: str, problem: str) -> PageResult:
    version = version_of(asked)
    if version is None:
        return missing(WORKFLOW, NO_VERSION)
    request = RestoreWorkflowVersionRequest(workflow=visit.path[ID], version=version, dry_run=True)
    try:
        planned: RestoreWorkflowVersionResponse = await visit.services.call(_RPC, request)
    except Refusal as refusal:
        if refusal.code not in NOT_THERE:
            raise
        return missing(WORKFLOW, refusal.message)
    context = {
        "workflow": planned.workflow,
        "version": version,
        "difference": difference_lines(planned.workflow.manifest_difference),
        "pinned": [(each, difference_lines(each.manifest_difference)) for each in planned.pinned],
        "problem": problem,
    }
    return View("definitions/restore.html", context, status=409 if problem else 200)
