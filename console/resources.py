"""Resources of workflows: their kinds, a version of a resource, and the context of its page."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from console.definitions.kinds import AGENT, CONNECTOR, ENVIRONMENT, GRAPH, DefinitionKind
from console.definitions.versions import (
    NO_VERSION,
    NOT_THERE,
    VersionList,
    read_manifest,
    read_versions,
    shown_variables,
    version_of,
)
from console.paging import all_items
from console.rendering.formatting import Badge
from console.visit import View, Visit
from contract.refusals import Refusal
from workflow_api.v1 import workflows_pb2
from workflow_api.v1.definitions_pb2 import DefinitionUse, ListDefinitionUsesRequest, Manifest
from workflow_api.v1.workflows_pb2 import GetResourceRequest, ListResourcesRequest, Resource, ResourceDefinition

PAGE: Final = 1_000
"""Most resources of a kind that one call returns."""

_TESTS: Final = {"passed": Badge("passed", "good"), "failed": Badge("failed", "bad")}

_VERSIONS: Final = 5


class ResourceKind(NamedTuple):
    """A kind of resource: its enum value, plural noun, and kind of definition."""

    number: workflows_pb2.ResourceKind.ValueType
    plural: str
    definition: DefinitionKind

    @property
    def path(self) -> str:
        """Path of the kind's list."""
        return self.definition.path


AGENTS: Final = ResourceKind(workflows_pb2.RESOURCE_KIND_AGENT, "Agents", AGENT)


ENVIRONMENTS: Final = ResourceKind(workflows_pb2.RESOURCE_KIND_ENVIRONMENT, "Environments", ENVIRONMENT)


CONNECTORS: Final = ResourceKind(workflows_pb2.RESOURCE_KIND_CONNECTOR, "Connectors", CONNECTOR)


GRAPHS: Final = ResourceKind(workflows_pb2.RESOURCE_KIND_KNOWLEDGE_GRAPH, "Knowledge graphs", GRAPH)


class MissingError(Exception):
    """Raised for a missing resource or version; the message is for people."""


class ResourceVersion(NamedTuple):
    """A version of a resource: kind, the service's answer, definition as a mapping, and address."""

    kind: ResourceKind
    answer: ResourceDefinition
    fields: Mapping[str, Any]
    here: str


def path_of(kind: ResourceKind, resource_id: str) -> str:
    """Returns the address of a resource's page."""
    return kind.definition.page_of(resource_id)


async def all_resources(visit: Visit, kind: ResourceKind) -> list[Resource]:
    """Returns all resources of a kind by name."""
    request = ListResourcesRequest(kind=kind.number, page_size=PAGE)
    return await all_items(visit.services, "WorkflowsService/ListResources", request)


async def requested_version(visit: Visit, kind: ResourceKind) -> ResourceVersion:
    """Returns the resource that the path names, at the version that the query names, by default the newest.

    Raises:
        MissingError: the resource or the version does not exist.
    """
    asked = visit.query.get("version", "")
    version = version_of(asked)
    if asked and version is None:
        raise MissingError(NO_VERSION)
    request = GetResourceRequest(kind=kind.number, resource=visit.path["resource"], version=version)
    try:
        answer: ResourceDefinition = await visit.services.call("WorkflowsService/GetResource", request)
    except Refusal as refusal:
        if refusal.code not in NOT_THERE:
            raise
        raise MissingError(refusal.message) from refusal
    return ResourceVersion(kind, answer, json.loads(answer.definition), path_of(kind, answer.resource.resource_id))


def missing(kind: ResourceKind, error: MissingError) -> View:
    """Returns the page in place of a resource that does not exist."""
    return View("resources/missing.html", {"kind": kind, "message": str(error)}, status=404)


def test_badge(outcome: str) -> Badge:
    """Returns the badge of a connector's last test, as `ListResources` names its outcome."""
    return _TESTS.get(outcome, Badge("not tested", "warn"))


async def details_of(visit: Visit, shown: ResourceVersion) -> dict[str, Any]:
    """Returns the context of `resources/parts.html`; a refresh reads nothing for it, because it is not live."""
    resource, kind = shown.answer.resource, shown.kind.definition
    manifest, found, uses = (Manifest(), VersionList([], ""), []) if visit.refresh else await _read(visit, shown)
    return {
        "kind": kind,
        "resource": resource,
        "version": shown.answer.shown_version,
        "variables": shown_variables(shown.answer.variables),
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
