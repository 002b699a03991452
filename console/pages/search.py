"""Search page over runs, definitions, keys and actions; the command palette shows its results too."""

import asyncio
from collections.abc import Awaitable, Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple
from urllib.parse import quote

from console.addresses import run_address
from console.definitions.kinds import AGENT, CONNECTOR, ENVIRONMENT, GRAPH, WORKFLOW
from console.keys.details import state_of
from console.rendering.formatting import Badge, run_badge, workflow_badge
from console.rendering.matching import resembles
from console.rendering.times import now_ms
from console.resources import AGENTS, CONNECTORS, ENVIRONMENTS, GRAPHS, path_of
from console.visit import ADMINISTRATORS, ALL_ROLES, DECIDERS, ONLOOKERS, OPERATORS, PageResult, View, Visit
from contract.refusals import Refusal
from workflow_api.v1.definitions_pb2 import FindResourcesRequest, FindWorkflowsRequest, FoundWorkflow
from workflow_api.v1.keys_pb2 import FindKeysRequest
from workflow_api.v1.run_lists_pb2 import ListFoundRunsRequest
from workflow_api.v1.runs_pb2 import GetRunRequest, RunSummary
from workflow_api.v1.users_pb2 import Role
from workflow_api.v1.workflows_pb2 import WORKFLOW_STATUS_ACTIVE

MAX_CHARS: Final = 200

_SHOWN: Final = 8
_SHOWN_STARTS: Final = 3
_MOST_COMPARED: Final = 50
"""Workflows whose names are compared with a text that nothing contains."""
_START: Final = "start "
# Statuses of a search text that a service does not accept or find: other searches go on.
_NO_MATCH: Final = frozenset({400, 404})
_READERS: Final = {AGENTS: ONLOOKERS, ENVIRONMENTS: ADMINISTRATORS, CONNECTORS: ADMINISTRATORS, GRAPHS: ADMINISTRATORS}
"""The roles that may read the pages of a kind."""


class Action(NamedTuple):
    """Something that a person may do: its label, other words that find it, the path of its page, and who may.

    With `sent` it is done by a form of one button, with these fields, instead of on its page.
    """

    label: str
    words: str
    path: str
    roles: Collection[Role.ValueType]
    sent: Mapping[str, str] = {}


_ACTIONS: Final = (
    Action("Decide approvals", "approve reject", "/approvals", DECIDERS),
    Action("Pause, resume or trigger a schedule", "cron start", "/schedules", OPERATORS),
    Action("Resume failed runs", "retry again", "/runs?status=failed", OPERATORS),
    Action("New key", "create add", "/keys/new", ADMINISTRATORS),
    *(
        Action(f"New {kind.noun}", "create add define", f"{kind.path}/new", ADMINISTRATORS)
        for kind in (WORKFLOW, AGENT, ENVIRONMENT, CONNECTOR, GRAPH)
    ),
    Action("Add a person", "new invite user account", "/people", ADMINISTRATORS),
    Action("Set time zone and theme", "preferences password passkey", "/preferences", ALL_ROLES),
)
_SETTINGS: Final = tuple(
    Action(label, words, "/preferences", ALL_ROLES, {name: value})
    for label, words, name, value in (
        ("Light colours", "theme", "theme", "light"),
        ("Dark colours", "theme", "theme", "dark"),
        ("Colours of this device", "theme system", "theme", "system"),
        ("Compact tables", "density", "density", "compact"),
        ("Comfortable tables", "density", "density", "comfortable"),
        ("Exact times", "absolute", "times", "exact"),
        ("Relative times", "how long ago", "times", "relative"),
    )
)
"""Settings of a person that are found by their words."""


class SearchResult(NamedTuple):
    """A match: the path of its page, name, distinguishing note, and state."""

    path: str
    name: str
    note: str
    badge: Badge


async def show(visit: Visit) -> PageResult:
    """Shows actions, and matches: runs by id, reference or label, others by a part of their name or id.

    Each search is bounded. `start NAME` finds the workflow that is to be started.
    """
    asked = visit.query.get("q", "").strip()[:MAX_CHARS]
    starts = asked.lower().startswith(_START)
    named = asked[len(_START) :].strip() if starts else asked
    runs, workflows, resources, keys = await asyncio.gather(
        _runs(visit, asked), _workflows(visit, named), _resources(visit, asked), _keys(visit, asked)
    )
    every = {"Runs": runs, "Workflows": [_workflow_result(each) for each in workflows], **resources, "Keys": keys}
    if named and not any(every.values()):
        every["Workflows"] = [_workflow_result(each) for each in await _workflows_like(visit, named)]
    groups = [(title, found) for title, found in every.items() if found]
    context = {"asked": asked, "groups": groups, "max_chars": MAX_CHARS}
    context |= {"starts": _starts(visit, workflows) if starts else [], "actions": _actions(visit, asked.lower())}
    return View("search/show.html", context)


def _actions(visit: Visit, asked: str) -> list[Action]:
    """Returns the actions that the person may take and that hold every word of the text."""
    words = asked.split()
    known = (*_ACTIONS, *(_SETTINGS if words else ()))
    actions = [(each, f"{each.label} {each.words}".lower()) for each in known if visit.user.role in each.roles]
    found = [each for each, text in actions if all(word in text for word in words)]
    return found or [each for each, text in actions if resembles(text, asked)]


def _starts(visit: Visit, workflows: Iterable[FoundWorkflow]) -> list[Action]:
    """Returns the start of each workflow that is active, of at most three."""
    active = [each for each in workflows if each.status == WORKFLOW_STATUS_ACTIVE]
    return [
        Action(f"Start {each.name}", "", WORKFLOW.page_of(each.workflow_id, "/start"), OPERATORS)
        for each in active[:_SHOWN_STARTS]
        if visit.user.role in OPERATORS
    ]


async def _runs(visit: Visit, asked: str) -> Sequence[SearchResult]:
    if not asked:
        return ()
    # A run that a step of another started is in no list.
    reads: list[Awaitable[Iterable[RunSummary]]] = [_run_of_id(visit, asked), _found_runs(visit, asked)]
    found = {run.run_id: run for runs in await asyncio.gather(*reads) for run in runs}.values()
    return [
        SearchResult(
            run_address(run.run_id),
            run.run_id,
            f"{run.workflow_name} {run.client_reference}".strip(),
            badge,
        )
        for run in found
        for badge in (run_badge(run.status),)
    ]


async def _run_of_id(visit: Visit, asked: str) -> Iterable[RunSummary]:
    try:
        return [(await visit.services.call("RunsService/GetRun", GetRunRequest(run_id=asked))).summary]
    except Refusal as refusal:
        return _no_match(refusal)


async def _found_runs(visit: Visit, asked: str) -> Iterable[RunSummary]:
    request = ListFoundRunsRequest(search=asked, page_size=_SHOWN)
    try:
        found = await visit.services.call("RunListsService/ListFoundRuns", request)
    except Refusal as refusal:
        return _no_match(refusal)
    return [each.run for each in found.items]


def _no_match(refusal: Refusal) -> Iterable[RunSummary]:
    if refusal.status not in _NO_MATCH:
        raise refusal
    return ()


async def _workflows(visit: Visit, asked: str) -> Sequence[FoundWorkflow]:
    request = FindWorkflowsRequest(text=asked, most=_SHOWN)
    found: Sequence[FoundWorkflow] = (await visit.services.call("DefinitionsService/FindWorkflows", request)).items
    return found


async def _workflows_like(visit: Visit, asked: str) -> list[FoundWorkflow]:
    """Returns workflows whose names resemble the text, of the first by name."""
    request = FindWorkflowsRequest(most=_MOST_COMPARED)
    known = (await visit.services.call("DefinitionsService/FindWorkflows", request)).items
    return [each for each in known if resembles(each.name, asked)][:_SHOWN]


def _workflow_result(workflow: FoundWorkflow) -> SearchResult:
    path = WORKFLOW.page_of(workflow.workflow_id)
    return SearchResult(path, workflow.name, workflow.workflow_id, workflow_badge(workflow.status))


async def _resources(visit: Visit, asked: str) -> Mapping[str, Sequence[SearchResult]]:
    """Returns matches by the title of their kind, for kinds whose pages the person may see."""
    kinds = [kind for kind, readers in _READERS.items() if visit.user.role in readers]
    groups: dict[str, list[SearchResult]] = {kind.plural: [] for kind in kinds}
    if kinds and visit.may("DefinitionsService/FindResources"):
        request = FindResourcesRequest(text=asked, kinds=[kind.number for kind in kinds], most=_SHOWN)
        for each in (await visit.services.call("DefinitionsService/FindResources", request)).items:
            kind = next(kind for kind in kinds if kind.number == each.kind)
            path = path_of(kind, each.resource_id)
            groups[kind.plural].append(
                SearchResult(path, each.name, each.resource_id, Badge(f"version {each.version}"))
            )
    return groups


async def _keys(visit: Visit, asked: str) -> Sequence[SearchResult]:
    if not visit.may("KeysService/FindKeys"):
        return ()
    found = await visit.services.call("KeysService/FindKeys", FindKeysRequest(text=asked, most=_SHOWN))
    now = now_ms()
    return [
        SearchResult(_path("keys", each.key_id), each.name, each.key_id, Badge(*state_of(each, now)))
        for each in found.items
    ]


def _path(folder: str, identifier: str) -> str:
    return f"/{folder}/{quote(identifier, safe='')}"
