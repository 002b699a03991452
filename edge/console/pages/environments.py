"""Pages of environments: bounds and packages of steps, what machines have built, and another try of a build."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

from edge.console import formatting
from edge.console.formatting import Badge
from edge.console.paging import all_items
from edge.console.resources import ENVIRONMENTS, PAGE, MissingError, asked_for, missing, path_of
from edge.console.visit import ADMINISTRATORS, Answered, EventStream, Page, Redirect, View, Visit
from edge.errors import Refusal
from workflow_api.v1 import environments_pb2
from workflow_api.v1.environments_pb2 import (
    BuildEnvironmentRequest,
    EnvironmentBuild,
    GetEnvironmentBuildRequest,
    ListEnvironmentBuildsRequest,
)

_LIST: Final = ENVIRONMENTS.path
_ONE: Final = f"{_LIST}/{{resource}}"
_POLL_SECONDS: Final = 1.0
_NOT_BUILT: Final = Badge("unknown")
_STATES: Final = {
    environments_pb2.ENVIRONMENT_BUILD_STATE_NO_PACKAGES: Badge("no packages"),
    environments_pb2.ENVIRONMENT_BUILD_STATE_BUILDING: Badge("building", "busy"),
    environments_pb2.ENVIRONMENT_BUILD_STATE_BUILT: Badge("built", "good"),
    environments_pb2.ENVIRONMENT_BUILD_STATE_FAILED: Badge("failed", "bad"),
}
_STATUSES: Final = {"active": Badge("active", "good")}


async def every_build(visit: Visit) -> list[EnvironmentBuild]:
    """Returns all environments by name."""
    request = ListEnvironmentBuildsRequest(page_size=PAGE)
    return await all_items(visit.services, "EnvironmentsService/ListEnvironmentBuilds", request)


async def show_list(visit: Visit) -> Answered:
    """Lists environments with the state of their packages."""
    rows = [
        (each, path_of(ENVIRONMENTS, each.environment_id), _badge(each.state), _status(each.status))
        for each in await every_build(visit)
    ]
    return View("resources/environments.html", {"rows": rows})


async def show(visit: Visit) -> Answered:
    """Shows a version of an environment; builds are those of its newest."""
    try:
        shown = await asked_for(visit, ENVIRONMENTS)
    except MissingError as error:
        return missing(ENVIRONMENTS, error)
    build = await _build(visit, shown.answer.resource.name)
    context: dict[str, Any] = {
        "build": build,
        "badge": _badge(build.state),
        "status": _status(str(shown.fields.get("status"))),
        "machines": [
            (each, _badge(each.state), formatting.size(each.bytes) if each.HasField("bytes") else "")
            for each in build.machines
        ],
        "preload": ", ".join((shown.fields.get("python") or {}).get("preload") or ()),
        "stream": f"{shown.here}/stream" if _is_building(build) else "",
    }
    return View("resources/environment.html", {**shown.context, **context})


async def rebuild(visit: Visit) -> Answered:
    """Makes every machine that failed to build the packages try again."""
    try:
        shown = await asked_for(visit, ENVIRONMENTS)
    except MissingError as error:
        return missing(ENVIRONMENTS, error)
    request = BuildEnvironmentRequest(name=shown.answer.resource.name)
    await visit.services.call("EnvironmentsService/BuildEnvironment", request)
    return Redirect(shown.here, "Machines that have not built the packages try again now.")


async def stream(visit: Visit) -> Answered:
    """Streams updates of a build until it has ended."""
    return EventStream(_updates(visit))


async def _updates(visit: Visit) -> AsyncIterator[tuple[str, str]]:
    try:
        name = (await asked_for(visit, ENVIRONMENTS)).answer.resource.name
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


PAGES: Final[tuple[Page, ...]] = (
    Page("GET", _LIST, ADMINISTRATORS, show_list),
    Page("GET", _ONE, ADMINISTRATORS, show),
    Page("POST", f"{_ONE}/build", ADMINISTRATORS, rebuild),
    Page("GET", f"{_ONE}/stream", ADMINISTRATORS, stream),
)
