"""Pages that ask before a definition is deleted, and say what keeps one that is in use."""

from console.definitions.kinds import DefinitionKind
from console.definitions.versions import ID, NOT_THERE, missing, read_manifest
from console.visit import PageResult, Redirect, View, Visit
from contract.refusals import Refusal
from workflow_api.v1.definitions_pb2 import DeleteDefinitionRequest


async def ask(kind: DefinitionKind, visit: Visit) -> PageResult:
    """Asks whether a definition is to be deleted."""
    return await _asked(kind, visit, "")


async def delete(kind: DefinitionKind, visit: Visit) -> PageResult:
    """Deletes a definition, or shows what uses it."""
    request = DeleteDefinitionRequest(kind=kind.kind, definition=visit.path[ID])
    try:
        deleted = await visit.services.call("DefinitionsService/DeleteDefinition", request)
    except Refusal as refusal:
        if refusal.code in NOT_THERE:
            return missing(kind, refusal.message)
        if refusal.code != "invalid_request":
            raise
        return await _asked(kind, visit, refusal.message)
    return Redirect(kind.path, f"The {kind.noun} {deleted.name} is deleted. Its audit trail stays.")


async def _asked(kind: DefinitionKind, visit: Visit, problem: str) -> PageResult:
    try:
        manifest = await read_manifest(visit.services, kind, visit.path[ID])
    except Refusal as refusal:
        if refusal.code not in NOT_THERE:
            raise
        return missing(kind, refusal.message)
    context = {"kind": kind, "manifest": manifest, "problem": problem}
    return View("definitions/delete.html", context, status=409 if problem else 200)
