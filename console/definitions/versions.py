"""Versions of a definition: who saved them, and what differs between two."""

from typing import Final, NamedTuple

from console.definitions.difference import difference_lines
from console.definitions.kinds import DefinitionKind
from console.visit import PageResult, Services, View, Visit
from contract.refusals import Refusal
from workflow_api.v1.definitions_pb2 import (
    CompareVersionsRequest,
    DefinitionVersion,
    GetManifestRequest,
    ListDefinitionVersionsRequest,
    Manifest,
)

ID: Final = "definition_id"
"""The name in the paths of pages for the id of a definition."""

NOT_THERE: Final = frozenset({"not_found", "version_not_found"})

NO_VERSION: Final = "A version is a whole number from 1 on."

_PAGE: Final = 50
_MOST_DIGITS: Final = 9


class VersionList(NamedTuple):
    """Versions, newest first, and the token of those that are older; empty where there are none."""

    versions: list[DefinitionVersion]
    older: str


async def read_versions(
    services: Services, kind: DefinitionKind, definition_id: str, *, size: int = _PAGE, after: str = ""
) -> VersionList:
    """Returns a page of versions; raises as `Services.call`."""
    request = ListDefinitionVersionsRequest(kind=kind.kind, definition=definition_id, page_size=size, page_token=after)
    answer = await services.call("DefinitionsService/ListDefinitionVersions", request)
    return VersionList(list(answer.items), answer.next_page_token)


async def read_manifest(
    services: Services, kind: DefinitionKind, definition_id: str, version: int | None = None
) -> Manifest:
    """Returns a version as a manifest, by default the newest; raises as `Services.call`."""
    request = GetManifestRequest(kind=kind.kind, definition=definition_id, version=version)
    manifest: Manifest = await services.call("DefinitionsService/GetManifest", request)
    return manifest


def version_of(text: str) -> int | None:
    """Returns the number of a version, None where the text is none."""
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else 0
    return number or None


def missing(kind: DefinitionKind, message: str) -> View:
    """Returns the page in place of what does not exist."""
    return View("definitions/missing.html", {"kind": kind, "message": message}, status=404)


async def show_versions(kind: DefinitionKind, visit: Visit) -> PageResult:
    """Lists the versions of a definition, with a form that compares two."""
    definition_id = visit.path[ID]
    try:
        newest = await read_manifest(visit.services, kind, definition_id)
        found = await read_versions(visit.services, kind, newest.id, after=visit.query.get("after", ""))
    except Refusal as refusal:
        if refusal.code not in NOT_THERE:
            raise
        return missing(kind, refusal.message)
    return View("definitions/versions.html", {"kind": kind, "manifest": newest, "found": found})


async def compare(kind: DefinitionKind, visit: Visit) -> PageResult:
    """Shows what differs between two versions of a definition."""
    before, after = (version_of(visit.query.get(name, "")) for name in ("before", "after"))
    if before is None or after is None:
        return missing(kind, "Two versions are compared, each a whole number from 1 on.")
    request = CompareVersionsRequest(kind=kind.kind, definition=visit.path[ID], before=before, after=after)
    try:
        answer = await visit.services.call("DefinitionsService/CompareVersions", request)
    except Refusal as refusal:
        if refusal.code not in NOT_THERE:
            raise
        return missing(kind, refusal.message)
    return View(
        "definitions/compare.html",
        {
            "kind": kind,
            "here": kind.page_of(visit.path[ID]),
            "name": answer.name,
            "newest": answer.newest_version,
            "before": before,
            "after": after,
            "difference": difference_lines(answer.difference),
        },
    )
