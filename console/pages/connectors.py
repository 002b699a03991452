"""Pages of connectors: what they may read, what uses them, and a test that asks the store."""

from typing import Any

from console.rendering import formatting
from console.resources.details import details_of
from console.resources.lookup import (
    CONNECTORS,
    MissingError,
    ResourceVersion,
    all_resources,
    missing,
    path_of,
    requested_version,
    test_badge,
)
from console.visit import PageResult, View, Visit
from contract.refusals import Refusal
from contract.times import milliseconds_of
from workflow_api.v1.workflows_pb2 import ConnectorCheck, ConnectorTest, TestConnectorRequest


async def show_list(visit: Visit) -> PageResult:
    """Lists connectors with the outcome of the last test of each."""
    rows = [
        (each, path_of(CONNECTORS, each.resource_id), test_badge(each.status))
        for each in await all_resources(visit, CONNECTORS)
    ]
    return View("resources/connectors.html", {"rows": rows})


async def show(visit: Visit) -> PageResult:
    """Shows a version of a connector, and its last test."""
    try:
        shown = await requested_version(visit, CONNECTORS)
    except MissingError as error:
        return missing(CONNECTORS, error)
    return await _view(visit, shown)


async def test(visit: Visit) -> PageResult:
    """Asks the store with the connector's credentials, and shows what it answered."""
    try:
        shown = await requested_version(visit, CONNECTORS)
    except MissingError as error:
        return missing(CONNECTORS, error)
    request = TestConnectorRequest(name=shown.answer.resource.name)
    try:
        outcome: ConnectorTest = await visit.services.call("WorkflowsService/TestConnector", request)
    except Refusal as refusal:
        if refusal.code != "rate_limited":
            raise
        return await _view(visit, shown, busy=refusal.message)
    return await _view(visit, shown, outcome)


async def _view(visit: Visit, shown: ResourceVersion, outcome: ConnectorTest | None = None, *, busy: str = "") -> View:
    last = shown.answer.last_test if shown.answer.HasField("last_test") else None
    context: dict[str, Any] = {
        "last_test": outcome or last,
        "checks": [_check(check) for check in outcome.checks] if outcome else (),
        "tested_now": outcome is not None,
        "busy": busy,
    }
    return View("resources/connector.html", {**await details_of(visit, shown), **context}, status=429 if busy else 200)


def _check(check: ConnectorCheck) -> tuple[ConnectorCheck, str, str]:
    """Returns a check with the store's answer in words, and how long that took."""
    silent = "" if check.answer else "no answer"
    answer = str(check.http_status) if check.HasField("http_status") else silent
    took = formatting.duration(milliseconds_of(check.took))
    return check, f"{answer} {check.code}".strip(), took
