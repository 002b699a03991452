"""Pages of agents: their versions, the workflows that use them, and the editor."""

import asyncio
from typing import Final

from console.definitions.kinds import AGENT
from console.definitions.versions import (
    ID,
    NO_VERSION,
    NOT_THERE,
    missing,
    read_manifest,
    read_versions,
    version_of,
)
from console.paging import all_items
from console.visit import ADMINISTRATORS, PageResult, View, Visit
from contract.refusals import Refusal
from workflow_api.v1.definitions_pb2 import ListDefinitionUsesRequest
from workflow_api.v1.workflows_pb2 import RESOURCE_KIND_AGENT, GetResourceRequest, ListResourcesRequest

_PAGE: Final = 1000
_VERSIONS: Final = 5
_TYPES: Final = {"python": "Python code", "llm": "language model"}


async def show_list(visit: Visit) -> PageResult:
    """Lists every agent."""
    request = ListResourcesRequest(kind=RESOURCE_KIND_AGENT, page_size=_PAGE)
    agents = await all_items(visit.services, "WorkflowsService/ListResources", request)
    rows = [(agent, _TYPES.get(agent.type, agent.type)) for agent in agents]
    return View("agents/list.html", {"rows": rows, "administrator": visit.user.role in ADMINISTRATORS})


async def show_one(visit: Visit) -> PageResult:
    """Shows a version of an agent, by default the newest."""
    asked = visit.query.get("version", "")
    version = version_of(asked)
    if asked and version is None:
        return missing(AGENT, NO_VERSION)
    try:
        manifest = await read_manifest(visit.services, AGENT, visit.path[ID], version)
        resource, found, uses = await asyncio.gather(
            visit.services.call(
                "WorkflowsService/GetResource", GetResourceRequest(kind=RESOURCE_KIND_AGENT, resource=manifest.id)
            ),
            read_versions(visit.services, AGENT, manifest.id, size=_VERSIONS),
            all_items(
                visit.services,
                "DefinitionsService/ListDefinitionUses",
                ListDefinitionUsesRequest(kind=AGENT.kind, definition=manifest.id),
            ),
        )
    except Refusal as refusal:
        if refusal.code not in NOT_THERE:
            raise
        return missing(AGENT, refusal.message)
    return View(
        "agents/one.html",
        {
            "agent": resource.resource,
            "type": _TYPES.get(resource.resource.type, resource.resource.type),
            "here": AGENT.page_of(manifest.id),
            "manifest": manifest,
            "found": found,
            "uses": uses,
            "deleted_at": resource.deleted_at if resource.HasField("deleted_at") else None,
            "administrator": visit.user.role in ADMINISTRATORS,
        },
    )
