"""Pages of environments: bounds and packages of steps, builds on machines, and rebuilds."""

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any, Final
from urllib.parse import urlencode

from console.definitions.editor import FILE
from console.definitions.versions import read_manifest
from console.http.downloads import whole
from console.paging import all_items
from console.rendering import formatting
from console.rendering.formatting import Badge
from console.rendering.text import ending
from console.resources import ENVIRONMENTS, PAGE, MissingError, details_of, missing, path_of, requested_version
from console.visit import FileDownload, PageEvents, PageResult, Redirect, View, Visit
from contract.refusals import Refusal
from workflow_api.v1 import environments_pb2
from workflow_api.v1.environments_pb2 import (
    BuildEnvironmentRequest,
    EnvironmentBuild,
    EnvironmentBuildLog,
    GetEnvironmentBuildLogRequest,
    GetEnvironmentBuildRequest,
    ListEnvironmentBuildsRequest,
)
from workflow_api.v1.workflows_pb2 import ApplyManifestsRequest, ExpectedVersion, ManifestFile

_POLL_SECONDS: Final = 1.0
_SHOWN_CHARS: Final = 20_000
_SHOWN_BYTES: Final = 80_000
_NO_LOG: Final = frozenset({"not_found", "invalid_request"})
_NOT_BUILT: Final = Badge("unknown")
_STATES: Final = {
    environments_pb2.ENVIRONMENT_BUILD_STATE_NO_PACKAGES: Badge("no packages"),
    environments_pb2.ENVIRONMENT_BUILD_STATE_BUILDING: Badge("building", "busy"),
    environments_pb2.ENVIRONMENT_BUILD_STATE_BUILT: Badge("built", "good"),
    environments_pb2.ENVIRONMENT_BUILD_STATE_FAILED: Badge("failed", "bad"),
}
_STATUS_LINE: Final = re.compile(r"^status: .*\n", re.MULTILINE)
"""The `status` line of a manifest as the service writes it."""
_STATUSES: Final = {"active": Badge("active", "good")}


async def every_build(visit: Visit) -> list[EnvironmentBuild]:
    """Returns all environments by name."""
    request = ListEnvironmentBuildsRequest(page_size=PAGE)
    return await all_items(visit.services, "EnvironmentsService/ListEnvironmentBuilds", request)


async def show_list(visit: Visit) -> PageResult:
    """Lists environments with the state of their packages."""
    rows = [
        (each, path_of(ENVIRONMENTS, each.environment_id), _badge(each.state), _status(each.status))
        for each in await every_build(visit)
    ]
    return View("resources/environments.html", {"rows": rows})


async def show(visit: Visit) -> PageResult:
    """Shows a version of an environment, and the builds of its newest version."""
    try:
        shown = await requested_version(visit, ENVIRONMENTS)
    except MissingError as error:
        return missing(ENVIRONMENTS, error)
    build, details = await asyncio.gather(_build(visit, shown.answer.resource.name), details_of(visit, shown))
    context: dict[str, Any] = {
        "build": build,
        "badge": _badge(build.state),
        "status": _status(str(shown.fields.get("status"))),
        "active": str(shown.fields.get("status")) == "active",
        "machines": [
            (each, _badge(each.state), formatting.size(each.bytes) if each.HasField("bytes") else "")
            for each in build.machines
        ],
        "preload": ", ".join((shown.fields.get("python") or {}).get("preload") or ()),
        "stream": f"{shown.here}/stream" if _is_building(build) else "",
    }
    return View("resources/environment.html", {**details, **context})


async def show_log(visit: Visit) -> PageResult:
    """Shows the end of the log of a build on one machine."""
    try:
        name, machine, log = await _log(visit)
    except MissingError as error:
        return missing(ENVIRONMENTS, error)
    address = path_of(ENVIRONMENTS, visit.path["resource"])
    text, cut = ending(log.text, _SHOWN_CHARS, _SHOWN_BYTES)
    context = {
        "name": name,
        "machine": machine,
        "log": log,
        "text": text,
        "cut": cut,
        "here": address,
        "download": f"{address}/log/download?{urlencode({'machine': machine})}",
    }
    return View("resources/build_log.html", context)


async def download_log(visit: Visit) -> PageResult:
    """Sends the log of a build."""
    try:
        name, machine, log = await _log(visit)
    except MissingError as error:
        return missing(ENVIRONMENTS, error)
    content = log.text.encode()
    return FileDownload(whole(content), f"{name}-{machine}.log", "text/plain", len(content))


async def rebuild(visit: Visit) -> PageResult:
    """Retries the build on every machine where it failed."""
    try:
        shown = await requested_version(visit, ENVIRONMENTS)
    except MissingError as error:
        return missing(ENVIRONMENTS, error)
    request = BuildEnvironmentRequest(name=shown.answer.resource.name)
    await visit.services.call("EnvironmentsService/BuildEnvironment", request)
    return Redirect(shown.here, "Machines that have not built the packages try again now.")


async def activate(visit: Visit) -> PageResult:
    """Saves an active version, with which workflows that use the environment may start."""
    return await _set_status(visit, "active", "Workflows that use it can be started again.")


async def deactivate(visit: Visit) -> PageResult:
    """Saves an inactive version, with which workflows that use the environment may not start."""
    return await _set_status(visit, "inactive", "Workflows that use it cannot be started. Their runs go on.")


async def _set_status(visit: Visit, status: str, notice: str) -> PageResult:
    try:
        shown = await requested_version(visit, ENVIRONMENTS)
    except MissingError as error:
        return missing(ENVIRONMENTS, error)
    manifest = await read_manifest(visit.services, ENVIRONMENTS.definition, shown.answer.resource.resource_id)
    text = _STATUS_LINE.sub("", manifest.text) + f"status: {status}\n"
    newest = ExpectedVersion(kind=manifest.kind, name=manifest.name, version=manifest.newest_version)
    request = ApplyManifestsRequest(files=[ManifestFile(name=FILE, content=text)], expected=[newest])
    await visit.services.call("WorkflowsService/ApplyManifests", request)
    return Redirect(shown.here, notice)


async def stream(visit: Visit) -> PageResult:
    """Streams updates of a build until it has ended."""
    return PageEvents(_updates(visit))


async def _updates(visit: Visit) -> AsyncIterator[tuple[str, str]]:
    try:
        name = (await requested_version(visit, ENVIRONMENTS)).answer.resource.name
        seen = b""
        while True:
            build = await _build(visit, name)
            now = build.SerializeToString(deterministic=True)
            if now != seen:
                yield "refresh", ""
            if not _is_building(build):
                yield "end", ""
                return
            seen = now
            await asyncio.sleep(_POLL_SECONDS)
    except (MissingError, Refusal) as error:
        if isinstance(error, Refusal) and error.code != "not_found":
            raise
        yield "reload", ""


async def _log(visit: Visit) -> tuple[str, str, EnvironmentBuildLog]:
    """Returns the names of environment and machine, and the log of the build."""
    name = (await requested_version(visit, ENVIRONMENTS)).answer.resource.name
    machine = visit.query.get("machine", "")
    request = GetEnvironmentBuildLogRequest(name=name, machine=machine)
    try:
        return name, machine, await visit.services.call("EnvironmentsService/GetEnvironmentBuildLog", request)
    except Refusal as refusal:
        if refusal.code not in _NO_LOG:
            raise
        raise MissingError(refusal.message) from refusal


async def _build(visit: Visit, name: str) -> EnvironmentBuild:
    build: EnvironmentBuild = await visit.services.call(
        "EnvironmentsService/GetEnvironmentBuild", GetEnvironmentBuildRequest(name=name)
    )
    return build


def _is_building(build: EnvironmentBuild) -> bool:
    building = environments_pb2.ENVIRONMENT_BUILD_STATE_BUILDING
    return build.state == building or any(each.state == building for each in build.machines)


def _badge(state: int) -> Badge:
    return _STATES.get(environments_pb2.EnvironmentBuildState.ValueType(state), _NOT_BUILT)


def _status(status: str) -> Badge:
    return _STATUSES.get(status, Badge(status, "warn"))
