"""Pages of a definition's versions: list, differences, restoring a version, deleting the definition."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from console.definitions.kinds import WORKFLOW, DefinitionKind
from console.rendering.text import beginning, short
from console.visit import PageResult, Redirect, UserServices, View, Visit
from contract.refusals import Refusal
from workflow_api.v1.definitions_pb2 import (
    CompareVersionsRequest,
    DefinitionVersion,
    DeleteDefinitionRequest,
    GetManifestRequest,
    ListDefinitionVersionsRequest,
    Manifest,
    RestoreWorkflowVersionRequest,
    RestoreWorkflowVersionResponse,
)

ID: Final = "definition_id"
"""The name in the paths of pages for the id of a definition."""

NOT_THERE: Final = frozenset({"not_found", "version_not_found"})

NO_VERSION: Final = "A version is a whole number from 1 on."

_PAGE: Final = 50
_MOST_DIGITS: Final = 9

_MOST_LINES: Final = 600
_MOST_CHARS: Final = 24_000
_LINE_CHARS: Final = 400
_VALUE_CHARS: Final = 200
_TAGS: Final = {"+": "ins", "-": "del", "@": "h"}

_RESTORE: Final = "DefinitionsService/RestoreWorkflowVersion"
_CHANGED: Final = "Somebody saved another version meanwhile. Review what would change now."


class VersionList(NamedTuple):
    """Versions, newest first, and the page token of older ones; empty at the end."""

    versions: list[DefinitionVersion]
    older: str


async def read_versions(
    services: UserServices, kind: DefinitionKind, definition_id: str, *, size: int = _PAGE, after: str = ""
) -> VersionList:
    """Returns a page of versions; raises as `UserServices.call`."""
    request = ListDefinitionVersionsRequest(kind=kind.kind, definition=definition_id, page_size=size, page_token=after)
    answer = await services.call("DefinitionsService/ListDefinitionVersions", request)
    return VersionList(list(answer.items), answer.next_page_token)


async def read_manifest(
    services: UserServices, kind: DefinitionKind, definition_id: str, version: int | None = None
) -> Manifest:
    """Returns a version as a manifest, by default the newest; raises as `UserServices.call`."""
    request = GetManifestRequest(kind=kind.kind, definition=definition_id, version=version)
    manifest: Manifest = await services.call("DefinitionsService/GetManifest", request)
    return manifest


def version_of(text: str) -> int | None:
    """Returns the number of a version; None where the text is no number."""
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else 0
    return number or None


def missing(kind: DefinitionKind, message: str) -> View:
    """Returns the 404 page for a missing definition or version."""
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
    """Shows the differences between two versions of a definition."""
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


class DifferenceLine(NamedTuple):
    """A line of a difference and its mark: `ins`, `del`, `h` for the heading of a hunk, or `same`."""

    tag: str
    text: str


class ShownDifference(NamedTuple):
    """The lines shown of a difference, the numbers added and removed, and whether lines are left out."""

    lines: list[DifferenceLine]
    added: int
    removed: int
    cut: bool


def difference_lines(unified: str) -> ShownDifference:
    """Returns the lines of a unified difference, without its two lines of names, bounded for a page."""
    every = unified.splitlines()[2:]
    first = "\n".join(short(line, _LINE_CHARS) for line in every[:_MOST_LINES])
    text, cut = beginning(first, _MOST_CHARS, _MOST_CHARS)
    shown = [DifferenceLine(_TAGS.get(line[:1], "same"), line) for line in text.splitlines()]
    added, removed = (sum(line.startswith(sign) for line in every) for sign in "+-")
    return ShownDifference(shown, added, removed, cut or len(every) > _MOST_LINES)


class ShownVariable(NamedTuple):
    """A variable of manifests with the beginning of the value that it had when a version was applied."""

    name: str
    value: str


def shown_variables(variables: Mapping[str, str]) -> list[ShownVariable]:
    """Returns the variables of a version by name, with long values cut for a page."""
    return [
        ShownVariable(name, short(value, _VALUE_CHARS, size=_VALUE_CHARS)) for name, value in sorted(variables.items())
    ]


async def ask_to_restore(visit: Visit) -> PageResult:
    """Shows the changes of restoring the version that the query names."""
    return await _restoration(visit, visit.query.get("version", ""), "")


async def restore(visit: Visit) -> PageResult:
    """Restores a version, unless a newer version than the one shown was saved meanwhile."""
    version, expected = version_of(visit.sent("version")), version_of(visit.sent("expected"))
    if version is None or expected is None:
        return missing(WORKFLOW, NO_VERSION)
    request = RestoreWorkflowVersionRequest(workflow=visit.path[ID], version=version, expected_version=expected)
    try:
        done: RestoreWorkflowVersionResponse = await visit.services.call(_RESTORE, request)
    except Refusal as refusal:
        if refusal.code in NOT_THERE:
            return missing(WORKFLOW, refusal.message)
        if not _names_expected_version(refusal):
            raise
        return await _restoration(visit, visit.sent("version"), _CHANGED)
    made = done.workflow.version
    return Redirect(
        WORKFLOW.page_of(done.workflow.id), f"Version {made} is active, with all that version {version} used."
    )


async def ask_to_delete(kind: DefinitionKind, visit: Visit) -> PageResult:
    """Asks for confirmation before a definition is deleted."""
    return await _deletion(kind, visit, "")


async def delete(kind: DefinitionKind, visit: Visit) -> PageResult:
    """Deletes a definition, or shows its users where it is in use."""
    request = DeleteDefinitionRequest(kind=kind.kind, definition=visit.path[ID])
    try:
        deleted = await visit.services.call("DefinitionsService/DeleteDefinition", request)
    except Refusal as refusal:
        if refusal.code in NOT_THERE:
            return missing(kind, refusal.message)
        if refusal.code != "invalid_request":
            raise
        return await _deletion(kind, visit, refusal.message)
    return Redirect(kind.path, f"The {kind.noun} {deleted.name} is deleted. Its audit trail stays.")


def _names_expected_version(refusal: Refusal) -> bool:
    problems: Any = refusal.details if isinstance(refusal.details, list) else ()
    return refusal.code == "invalid_request" and any(each["name"] == "expected_version" for each in problems)


async def _restoration(visit: Visit, asked: str, problem: str) -> PageResult:
    version = version_of(asked)
    if version is None:
        return missing(WORKFLOW, NO_VERSION)
    request = RestoreWorkflowVersionRequest(workflow=visit.path[ID], version=version, dry_run=True)
    try:
        planned: RestoreWorkflowVersionResponse = await visit.services.call(_RESTORE, request)
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


async def _deletion(kind: DefinitionKind, visit: Visit, problem: str) -> PageResult:
    try:
        manifest = await read_manifest(visit.services, kind, visit.path[ID])
    except Refusal as refusal:
        if refusal.code not in NOT_THERE:
            raise
        return missing(kind, refusal.message)
    context = {"kind": kind, "manifest": manifest, "problem": problem}
    return View("definitions/delete.html", context, status=409 if problem else 200)
