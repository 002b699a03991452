"""DefinitionsService over gRPC: lists, compares and restores versions, finds uses, and deletes definitions."""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

import grpc

from backend.common.paging import Paging
from backend.rpc.callers import principal_of
from backend.services.audit import sql as audit
from backend.services.dependencies import Services
from backend.services.workflows import definitions, definitions_sql, resources_sql, sql
from backend.services.workflows.definitions import agent_code
from backend.services.workflows.definitions_sql import VersionRow
from backend.services.workflows.deletion import delete_definition
from backend.services.workflows.manifests.names import RESOURCE_KINDS
from backend.services.workflows.messages import STATUSES
from backend.services.workflows.resource_reads import KINDS
from backend.services.workflows.uses import Use, uses
from backend.storage.database import Tx
from backend.storage.tables.deployment import AuditRow
from contract.fields import given_or_default
from contract.times import to_timestamp
from workflow_api.v1 import definitions_pb2, definitions_pb2_grpc

T = TypeVar("T")


def best_matches(things: Iterable[T], text: str, most: int, words: Callable[[T], tuple[str, str]]) -> list[T]:
    """Returns things whose name or id contains a text, ignoring case: first names that begin with it, then by name.

    `words` returns the name and the id of a thing.
    """
    asked = text.casefold()
    found = []
    for thing in things:
        name, identifier = (word.casefold() for word in words(thing))
        if asked in name or asked in identifier:
            found.append((not name.startswith(asked), name, identifier, thing))
    return [thing for *_, thing in sorted(found, key=lambda each: each[:3])[:most]]


LONGEST_DEFINITION: Final = 262_144
"""Most characters of a definition that is converted to a manifest, which then takes a second or less."""

_MOST_RECORDS: Final = 1_000
_BEYOND: Final = 2**31


class DefinitionsServicer(definitions_pb2_grpc.DefinitionsServiceServicer):
    """Shows versions of definitions as manifests, restores them, finds definitions, and deletes them."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def ListDefinitionVersions(
        self, request: definitions_pb2.ListDefinitionVersionsRequest, context: grpc.ServicerContext
    ) -> definitions_pb2.ListDefinitionVersionsResponse:
        """Returns the versions of a definition with their authors, newest first."""

        def work(tx: Tx) -> definitions_pb2.ListDefinitionVersionsResponse:
            found = definitions.find(tx, request.kind, request.definition, deleted=True)
            paging = Paging(self._services.cursors, request, of=found.id)
            (before,) = paging.after or (_BEYOND,)
            rows = definitions_sql.versions(tx, found.kind, found.id, before=int(before), limit=paging.rows_to_read)
            shown, token = paging.cut(rows, lambda row: (row.version,))
            records = _records(tx, found.id, shown)
            return definitions_pb2.ListDefinitionVersionsResponse(
                items=[_version(row, records.get(row.version)) for row in shown], next_page_token=token
            )

        return self._services.database.snapshot(work)

    def GetManifest(
        self, request: definitions_pb2.GetManifestRequest, context: grpc.ServicerContext
    ) -> definitions_pb2.Manifest:
        """Returns a version as YAML, converted outside of the transaction."""
        # Imported on use, to keep the start of the process fast: manifests are read rarely.
        from backend.services.workflows.manifests.writer import manifest_text

        def work(tx: Tx) -> tuple[definitions.Definition, int, str]:
            found = definitions.find(tx, request.kind, request.definition, deleted=True)
            version = request.version if request.HasField("version") else found.newest_version
            return found, version, definitions.text_of(tx, found, version)

        found, version, text = self._services.database.snapshot(work)
        return definitions_pb2.Manifest(
            kind=found.kind,
            id=found.id,
            name=found.name,
            version=version,
            newest_version=found.newest_version,
            text=manifest_text(found.kind, json.loads(text)) if len(text) <= LONGEST_DEFINITION else "",
            set_name=found.owner_set,
        )

    def CompareVersions(
        self, request: definitions_pb2.CompareVersionsRequest, context: grpc.ServicerContext
    ) -> definitions_pb2.CompareVersionsResponse:
        """Returns the diff of two versions, made outside of the transaction."""
        from backend.services.workflows.applying import manifest_difference

        def work(tx: Tx) -> tuple[definitions.Definition, dict[str, object], dict[str, object]]:
            found = definitions.find(tx, request.kind, request.definition, deleted=True)
            return (
                found,
                definitions.with_uses(tx, found, request.before),
                definitions.with_uses(tx, found, request.after),
            )

        found, before, after = self._services.database.snapshot(work)
        title = f"{found.kind} {found.name}, version"
        return definitions_pb2.CompareVersionsResponse(
            name=found.name,
            newest_version=found.newest_version,
            difference=manifest_difference(
                found.kind, before, after, (f"{title} {request.before}", f"{title} {request.after}")
            ),
        )

    def ListDefinitionUses(
        self, request: definitions_pb2.ListDefinitionUsesRequest, context: grpc.ServicerContext
    ) -> definitions_pb2.ListDefinitionUsesResponse:
        """Returns the workflows that use a definition, by name."""

        def work(tx: Tx) -> definitions_pb2.ListDefinitionUsesResponse:
            found = definitions.find(tx, request.kind, request.definition, deleted=True)
            paging = Paging(self._services.cursors, request, of=found.id)
            (name,) = paging.after or ("",)
            key = RESOURCE_KINDS.get(found.kind, "workflow"), found.name
            if found.deleted:
                return definitions_pb2.ListDefinitionUsesResponse()
            rows = uses(tx, found.id, key, after=str(name), limit=paging.rows_to_read)
            shown, token = paging.cut(rows, lambda use: (use.row.name,))
            return definitions_pb2.ListDefinitionUsesResponse(items=[_use(use) for use in shown], next_page_token=token)

        return self._services.database.snapshot(work)

    def DeleteDefinition(
        self, request: definitions_pb2.DeleteDefinitionRequest, context: grpc.ServicerContext
    ) -> definitions_pb2.DeleteDefinitionResponse:
        """Deletes an unused definition, in a transaction that excludes all other changes."""
        now, actor = self._services.clock(), principal_of(context).audit_name
        found = delete_definition(self._services.database, request.kind, request.definition, now=now, actor=actor)
        return definitions_pb2.DeleteDefinitionResponse(kind=found.kind, id=found.id, name=found.name)

    def ListSets(
        self,
        request: definitions_pb2.ListSetsRequest,
        context: grpc.ServicerContext,
    ) -> definitions_pb2.ListSetsResponse:
        """Sets by name, with what each owns."""
        # Read with manifests, which are imported when they are needed.
        from backend.services.workflows.sets import list_sets

        return list_sets(self._services, request)

    def RestoreWorkflowVersion(
        self, request: definitions_pb2.RestoreWorkflowVersionRequest, context: grpc.ServicerContext
    ) -> definitions_pb2.RestoreWorkflowVersionResponse:
        """Restores a former version, with its pinned agents and environments, as a new active version."""
        # Imported on use, as in `GetManifest`.
        from backend.services.workflows.applying import restore_version

        return restore_version(self._services, request, principal_of(context).audit_name)

    def GetAgentCode(
        self, request: definitions_pb2.GetAgentCodeRequest, context: grpc.ServicerContext
    ) -> definitions_pb2.AgentCode:
        """Returns the code of a version of an agent."""
        version = request.version if request.HasField("version") else None
        return self._services.database.snapshot(lambda tx: agent_code(tx, request.agent, version))

    def FindWorkflows(
        self, request: definitions_pb2.FindWorkflowsRequest, context: grpc.ServicerContext
    ) -> definitions_pb2.FindWorkflowsResponse:
        """Returns workflows by a part of name or id, if the caller may see them."""
        seen = principal_of(context).workflow_ids
        rows = [
            row for row in self._services.database.read(sql.all_workflows) if seen is None or row.workflow_id in seen
        ]
        items = [
            definitions_pb2.FoundWorkflow(workflow_id=row.workflow_id, name=row.name, status=STATUSES[row.status])
            for row in best_matches(
                rows, request.text, given_or_default(request, "most"), lambda row: (row.name, row.workflow_id)
            )
        ]
        return definitions_pb2.FindWorkflowsResponse(items=items)

    def FindResources(
        self, request: definitions_pb2.FindResourcesRequest, context: grpc.ServicerContext
    ) -> definitions_pb2.FindResourcesResponse:
        """Returns resources by a part of name or id."""
        rows = self._services.database.read(resources_sql.names)
        items = [
            definitions_pb2.FoundResource(kind=kind, resource_id=row.resource_id, name=row.name, version=row.version)
            for kind, stored in KINDS.items()
            if kind in request.kinds or not request.kinds
            for row in best_matches(
                (row for row in rows if row.kind == stored),
                request.text,
                given_or_default(request, "most"),
                lambda row: (row.name, row.resource_id),
            )
        ]
        return definitions_pb2.FindResourcesResponse(items=items)


def _records(tx: Tx, definition_id: str, versions: Sequence[VersionRow]) -> dict[int, AuditRow]:
    """Returns the audit records of versions, by number; each was written in the transaction that saved the version."""
    if not versions:
        return {}
    times = [row.created_at for row in versions]
    end = audit.AuditPosition(max(times) + 1, "")
    records, _ = audit.trail(tx, audit.Filters(target=definition_id), since=min(times), before=end, limit=_MOST_RECORDS)
    return {
        json.loads(record.details).get("version"): record for record in records if record.action.endswith(".applied")
    }


def _use(use: Use) -> definitions_pb2.DefinitionUse:
    return definitions_pb2.DefinitionUse(
        workflow_id=use.row.workflow_id,
        workflow_name=use.row.name,
        workflow_version=use.row.workflow_version,
        version=use.row.version,
        agents=use.agents,
        environments=use.environments,
        connectors=use.connectors,
        knowledge_graphs=use.knowledge_graphs,
    )


def _version(row: VersionRow, record: AuditRow | None) -> definitions_pb2.DefinitionVersion:
    message = definitions_pb2.DefinitionVersion(version=row.version, created_at=to_timestamp(row.created_at))
    if record is not None:
        message.created_by = record.actor
        message.changed_resources.extend(json.loads(record.details).get("changed_resources", ()))
    return message
