"""Finds workflows and resources as definitions, reads their versions, and packs the code of agents as zip archives."""

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from backend.common.errors import ApiError, invalid, not_found_message
from backend.common.json_text import JsonObject
from backend.services.workflows import definitions_sql, resources_sql, sql, versions_sql
from backend.services.workflows.manifests.names import MANIFEST_KINDS, MOST_OF_A_KIND, RESOURCE_KINDS
from backend.storage.database import Tx
from workflow_api.v1 import definitions_pb2, errors_pb2

WORKFLOW = "Workflow"


class Definition(NamedTuple):
    """A definition by its kind in manifests, its newest version, whether it was deleted, and the set that owns it."""

    kind: str
    id: str
    name: str
    newest_version: int
    deleted: bool = False
    owner_set: str | None = None


def find(tx: Tx, kind: str, id_or_name: str, *, deleted: bool = False) -> Definition:
    """Returns a definition by id or name; with `deleted` also a deleted one, by id.

    Raises:
        ApiError: `invalid_request` for an unknown kind; `not_found`, with the names that come close.
    """
    if kind == WORKFLOW:
        workflow = sql.find(tx, id_or_name)
        if workflow is not None and (deleted or workflow.deleted_at is None):
            gone = workflow.deleted_at is not None
            return Definition(
                kind, workflow.workflow_id, workflow.name, workflow.newest_version, gone, workflow.owner_set
            )
        known = [row.name for row in sql.all_workflows(tx)]
    elif kind in RESOURCE_KINDS:
        resource = resources_sql.named_or_identified(tx, RESOURCE_KINDS[kind], id_or_name)
        gone = resource is None and deleted
        if gone:
            resource = resources_sql.deleted(tx, RESOURCE_KINDS[kind], id_or_name)
        if resource is not None:
            return Definition(kind, resource.resource_id, resource.name, resource.version, gone, resource.owner_set)
        listed = resources_sql.resources_of_kind(tx, RESOURCE_KINDS[kind], after="", limit=MOST_OF_A_KIND)
        known = [row.name for row in listed]
    else:
        raise invalid("kind", f"must be one of: {', '.join((WORKFLOW, *RESOURCE_KINDS))}")
    what = RESOURCE_KINDS.get(kind, "workflow").replace("_", " ")
    raise ApiError(errors_pb2.ERROR_REASON_NOT_FOUND, not_found_message(what, id_or_name, known))


def newest_version(tx: Tx, kind: str, name: str) -> int:
    """Returns the newest version of a definition by name; 0 if there is none."""
    if kind == WORKFLOW:
        workflow = sql.get_by_name(tx, name)
        return 0 if workflow is None else workflow.newest_version
    resource = resources_sql.resource(tx, RESOURCE_KINDS[kind], name)
    return 0 if resource is None else resource.version


def text_of(tx: Tx, definition: Definition, version: int) -> str:
    """Returns the canonical JSON of a version.

    Raises:
        ApiError: `version_not_found`.
    """
    of_version = versions_sql.definition_text if definition.kind == WORKFLOW else resources_sql.definition_of
    text = of_version(tx, definition.id, version)
    if text is None:
        missing = f"{definition.name} has no version {version}: its newest is {definition.newest_version}."
        raise ApiError(errors_pb2.ERROR_REASON_VERSION_NOT_FOUND, missing)
    return text


def with_uses(tx: Tx, definition: Definition, version: int) -> JsonObject:
    """Returns a version; a workflow's with the versions of its agents and environments; raises as `text_of`."""
    value: JsonObject = json.loads(text_of(tx, definition, version))
    if definition.kind != WORKFLOW:
        return value
    uses = {
        f"{MANIFEST_KINDS[pin.kind]} {pin.name}": "none" if pin.version is None else f"version {pin.version}"
        for pin in versions_sql.pins_of(tx, definition.id, version).values()
    }
    return {**value, "uses": uses}


_TIME: Final = (1980, 1, 1, 0, 0, 0)


def archive_of(files: Mapping[str, bytes]) -> bytes:
    """Returns files, by path, as a zip archive."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for path, content in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(path, _TIME), content, zipfile.ZIP_DEFLATED, compresslevel=1)
    return target.getvalue()


def files_of(archive: bytes) -> dict[str, bytes]:
    """Returns the files of an archive by path."""
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        return {path: opened.read(path) for path in opened.namelist()}


_ONE_FILE: Final = "agent.py"


def agent_code(tx: Tx, agent: str, version: int | None) -> definitions_pb2.AgentCode:
    """Returns the code of an agent's version, by default of its newest, as a zip.

    Raises:
        ApiError: `not_found`, also where the folder was removed because no version needed it; `version_not_found`;
            `invalid_request` for an agent that has no code.
    """
    found = find(tx, "Agent", agent, deleted=True)
    number = found.newest_version if version is None else version
    definition = json.loads(text_of(tx, found, number))
    if "digest" in definition:
        archive = definitions_sql.archive(tx, definition["digest"])
        if archive is None:
            gone = (
                f"The code of version {number} of {found.name} is not kept any more: no version of a workflow uses it."
            )
            raise ApiError(errors_pb2.ERROR_REASON_NOT_FOUND, gone)
    elif "code" in definition:
        name = PurePosixPath(definition.get("code_file") or _ONE_FILE).name
        archive = archive_of({name: definition["code"].encode()})
    else:
        raise invalid("agent", f"must have code; {found.name} is of type {definition['type']}")
    return definitions_pb2.AgentCode(id=found.id, name=found.name, version=number, archive=archive)
