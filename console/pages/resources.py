"""Pages of resources: overview by kind, names of secrets (never their values), and connectors."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from console.definitions.kinds import AGENT, CONNECTOR, ENVIRONMENT, GRAPH, WORKFLOW
from console.pages.environments import every_build
from console.pages.graphs import every_graph
from console.paging import all_items
from console.rendering import formatting
from console.rendering.formatting import Badge
from console.resources import (
    CONNECTORS,
    ENVIRONMENTS,
    GRAPHS,
    MissingError,
    ResourceVersion,
    all_resources,
    details_of,
    missing,
    path_of,
    requested_version,
    test_badge,
)
from console.visit import PageResult, View, Visit
from contract.refusals import Refusal
from contract.times import milliseconds_of
from workflow_api.v1 import deployment_health_pb2
from workflow_api.v1.definitions_pb2 import DefinitionSet, ListSetsRequest, SetMember
from workflow_api.v1.deployment_health_pb2 import (
    SECRET_STATE_SET,
    GetSecretUseRequest,
    NamedSecret,
    SecretUse,
    SecretUser,
)
from workflow_api.v1.environments_pb2 import ENVIRONMENT_BUILD_STATE_BUILDING, ENVIRONMENT_BUILD_STATE_FAILED
from workflow_api.v1.workflows_pb2 import ConnectorCheck, ConnectorTest, TestConnectorRequest

SECRETS: Final = "/resources/secrets"
SETS: Final = "/resources/sets"

_STATES: Final = {
    deployment_health_pb2.SECRET_STATE_SET: Badge("set", "good"),
    deployment_health_pb2.SECRET_STATE_UNREADABLE: Badge("unreadable", "bad"),
    deployment_health_pb2.SECRET_STATE_MISSING: Badge("missing", "bad"),
}
_UNKNOWN: Final = Badge("unknown")
_DEFINITIONS: Final = {kind.kind: kind for kind in (WORKFLOW, AGENT, ENVIRONMENT, CONNECTOR, GRAPH)}
_SETS_PAGE: Final = 200
_KINDS: Final[Mapping[str, str]] = {
    "agent": "Agent",
    "connector": "Connector",
    "knowledge_graph": "Knowledge graph",
    "model_provider": "Models of",
    "notification": "Notifications to",
}


class _Panel(NamedTuple):
    """Panel of a kind of resource: its number, and sentences about resources that need attention."""

    title: str
    path: str
    number: int
    about: str
    attention: list[str]


async def show(visit: Visit) -> PageResult:
    """Shows the number of resources of each kind, and which need attention."""
    builds, connectors, graphs, named, sets = await asyncio.gather(
        every_build(visit),
        all_resources(visit, CONNECTORS),
        every_graph(visit),
        named_secrets(visit),
        all_sets(visit),
    )
    failed = sum(each.state == ENVIRONMENT_BUILD_STATE_FAILED for each in builds)
    building = sum(each.state == ENVIRONMENT_BUILD_STATE_BUILDING for each in builds)
    refused = sum(each.status == "failed" for each in connectors)
    untested = sum(each.status == "not tested" for each in connectors)
    unusable = sum(each.state != SECRET_STATE_SET for each in named)
    pending = sum(each.pending for each in graphs)
    panels = [
        _Panel(
            ENVIRONMENTS.plural,
            ENVIRONMENTS.path,
            len(builds),
            "Bounds of steps, and the packages that they may import.",
            _counted((failed, "could not be built"), (building, "being built")),
        ),
        _Panel(
            CONNECTORS.plural,
            CONNECTORS.path,
            len(connectors),
            "Object storage of others that runs may read.",
            _counted((refused, "failed the last test"), (untested, "not tested yet")),
        ),
        _Panel(
            GRAPHS.plural,
            GRAPHS.path,
            len(graphs),
            "What runs publish as RDF, to be queried.",
            _counted((pending, "publications pending")),
        ),
        _Panel(
            "Secrets",
            SECRETS,
            len(named),
            "Credentials by name, kept outside of this service.",
            _counted((unusable, "missing or unreadable")),
        ),
        _Panel("Sets", SETS, len(sets), "Definitions of a team or repository, which apply together.", []),
    ]
    return View("resources/overview.html", {"panels": panels})


async def named_secrets(visit: Visit) -> list[NamedSecret]:
    """Returns every secret that is set or that a definition names."""
    found: SecretUse = await visit.services.call("DeploymentHealthService/GetSecretUse", GetSecretUseRequest())
    return list(found.secrets)


async def show_secrets(visit: Visit) -> PageResult:
    """Lists secrets by name."""
    rows = [
        (each, _STATES.get(each.state, _UNKNOWN), [_user(user) for user in each.used_by])
        for each in await named_secrets(visit)
    ]
    return View("resources/secrets.html", {"rows": rows})


async def all_sets(visit: Visit) -> list[DefinitionSet]:
    """Returns all sets of definitions by name."""
    return await all_items(visit.services, "DefinitionsService/ListSets", ListSetsRequest(page_size=_SETS_PAGE))


async def show_sets(visit: Visit) -> PageResult:
    """Lists sets by name with the definitions that each owns."""
    rows = [(each.name, [_member(member) for member in each.members]) for each in await all_sets(visit)]
    return View("resources/sets.html", {"rows": rows})


def _member(member: SetMember) -> tuple[str, str, str]:
    """Returns a definition of a set: kind as a noun, name, and the address of its page."""
    kind = _DEFINITIONS[member.kind]
    return kind.noun, member.name, kind.page_of(member.id)


def _counted(*found: tuple[int, str]) -> list[str]:
    return [f"{count:,} {words}" for count, words in found if count]


def _user(user: SecretUser) -> tuple[str, str, str]:
    """Returns a secret's user: kind in words, name, and the address of its page, empty without one."""
    kind = {"connector": CONNECTORS, "knowledge_graph": GRAPHS}.get(user.kind)
    return _KINDS.get(user.kind, user.kind), user.name, "" if kind is None else path_of(kind, user.id)


async def list_connectors(visit: Visit) -> PageResult:
    """Lists connectors with the outcome of the last test of each."""
    rows = [
        (each, path_of(CONNECTORS, each.resource_id), test_badge(each.status))
        for each in await all_resources(visit, CONNECTORS)
    ]
    return View("resources/connectors.html", {"rows": rows})


async def show_connector(visit: Visit) -> PageResult:
    """Shows a version of a connector, and its last test."""
    try:
        shown = await requested_version(visit, CONNECTORS)
    except MissingError as error:
        return missing(CONNECTORS, error)
    return await _view(visit, shown)


async def test_connector(visit: Visit) -> PageResult:
    """Tests a connector against its store, and shows the outcome."""
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
    """Returns a check with the store's answer in words, and its duration."""
    silent = "" if check.answer else "no answer"
    answer = str(check.http_status) if check.HasField("http_status") else silent
    took = formatting.duration(milliseconds_of(check.took))
    return check, f"{answer} {check.code}".strip(), took
