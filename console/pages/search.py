"""Search page over runs, definitions and keys; the command palette shows its results too."""

import asyncio
import re
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from console.addresses import run_address
from console.definitions.kinds import WORKFLOW
from console.keys.details import state_of
from console.rendering.formatting import Badge, run_badge, workflow_badge
from console.rendering.times import now_ms
from console.resources import AGENTS, CONNECTORS, ENVIRONMENTS, GRAPHS, path_of
from console.visit import ADMINISTRATORS, ONLOOKERS, PageResult, View, Visit
from contract.fields import rules_of
from contract.refusals import Refusal
from workflow_api.v1.definitions_pb2 import FindResourcesRequest, FindWorkflowsRequest
from workflow_api.v1.keys_pb2 import FindKeysRequest
from workflow_api.v1.runs_pb2 import GetRunRequest, ListRunsRequest

MAX_CHARS: Final = 200

_SHOWN: Final = 8
_REFERENCE: Final = rules_of(ListRunsRequest.DESCRIPTOR.fields_by_name["client_reference"])
# Statuses of a search text that a service does not accept or find: other searches go on.
_NO_MATCH: Final = frozenset({400, 404})
_READERS: Final = {AGENTS: ONLOOKERS, ENVIRONMENTS: ADMINISTRATORS, CONNECTORS: ADMINISTRATORS, GRAPHS: ADMINISTRATORS}
"""The roles that may read the pages of a kind."""


class SearchResult(NamedTuple):
    """A match: the path of its page, name, distinguishing note, and state."""

    path: str
    name: str
    note: str
    badge: Badge


async def show(visit: Visit) -> PageResult:
    """Shows matches: runs by id or reference, others by a part of name or id; each search is bounded."""
    asked = visit.query.get("q", "").strip()[:MAX_CHARS]
    runs, workflows, resources, keys = await asyncio.gather(
        _runs(visit, asked), _workflows(visit, asked), _resources(visit, asked), _keys(visit, asked)
    )
    every = {"Runs": runs, "Workflows": workflows, **resources, "Keys": keys}
    groups = [(title, found) for title, found in every.items() if found]
    return View("search/show.html", {"asked": asked, "groups": groups, "max_chars": MAX_CHARS})


async def _runs(visit: Visit, asked: str) -> Sequence[SearchResult]:
    if not asked:
        return ()
    reads: list[Awaitable[Iterable[Any]]] = [_run_of_id(visit, asked)]
    if re.fullmatch(_REFERENCE.pattern, asked):
        reads.append(_runs_of_reference(visit, asked))
    found = [run for runs in await asyncio.gather(*reads) for run in runs]
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


async def _run_of_id(visit: Visit, asked: str) -> Iterable[Any]:
    try:
        return [(await visit.services.call("RunsService/GetRun", GetRunRequest(run_id=asked))).summary]
    except Refusal as refusal:
        return _no_match(refusal)


async def _runs_of_reference(visit: Visit, asked: str) -> Iterable[Any]:
    request = ListRunsRequest(client_reference=asked, page_size=_SHOWN)
    try:
        found: Iterable[Any] = (await visit.services.call("RunsService/ListRuns", request)).items
    except Refusal as refusal:
        return _no_match(refusal)
    return found


def _no_match(refusal: Refusal) -> Iterable[Any]:
    if refusal.status not in _NO_MATCH:
        raise refusal
    return ()


async def _workflows(visit: Visit, asked: str) -> Sequence[SearchResult]:
    found = await visit.services.call("DefinitionsService/FindWorkflows", FindWorkflowsRequest(text=asked, most=_SHOWN))
    return [
        SearchResult(WORKFLOW.page_of(each.workflow_id), each.name, each.workflow_id, workflow_badge(each.status))
        for each in found.items
    ]


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
