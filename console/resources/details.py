"""What the pages of every kind of resource show beside what is special to it: manifest, versions and uses."""

import asyncio
from typing import Any, Final

from console.definitions.versions import VersionList, read_manifest, read_versions
from console.paging import all_items
from console.resources.lookup import ResourceVersion
from console.visit import Visit
from workflow_api.v1.definitions_pb2 import DefinitionUse, ListDefinitionUsesRequest, Manifest

_VERSIONS: Final = 5


async def details_of(visit: Visit, shown: ResourceVersion) -> dict[str, Any]:
    """Returns the context of `resources/parts.html`, of which a refresh takes over nothing that is read here."""
    resource, kind = shown.answer.resource, shown.kind.definition
    manifest, found, uses = (Manifest(), VersionList([], ""), []) if visit.refresh else await _read(visit, shown)
    return {
        "kind": kind,
        "resource": resource,
        "version": shown.answer.shown_version,
        "fields": shown.fields,
        "here": shown.here,
        "manifest": manifest,
        "found": found,
        "uses": uses,
        "deleted_at": shown.answer.deleted_at if shown.answer.HasField("deleted_at") else None,
    }


async def _read(visit: Visit, shown: ResourceVersion) -> tuple[Manifest, VersionList, list[DefinitionUse]]:
    resource, kind = shown.answer.resource, shown.kind.definition
    manifest, found, uses = await asyncio.gather(
        read_manifest(visit.services, kind, resource.resource_id, shown.answer.shown_version),
        read_versions(visit.services, kind, resource.resource_id, size=_VERSIONS),
        all_items(
            visit.services,
            "DefinitionsService/ListDefinitionUses",
            ListDefinitionUsesRequest(kind=kind.kind, definition=resource.resource_id),
        ),
    )
    return manifest, found, uses
