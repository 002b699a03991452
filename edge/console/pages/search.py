"""The search over runs, workflows and keys; the command palette shows its results too."""

import asyncio
import re
from collections.abc import Awaitable, Iterable, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from contract.fields import rules_of
from edge.console.addresses import run_address
from edge.console.keys.details import matches, state_of
from edge.console.pages.workflows import every_workflow
from edge.console.paging import all_items
from edge.console.rendering.formatting import Badge, run_badge, workflow_badge
from edge.console.rendering.times import now_ms
from edge.console.visit import ALL_ROLES, Answered, Page, View, Visit
from edge.errors import Refusal
from workflow_api.v1.keys_pb2 import KeyRecord, ListKeysRequest
from workflow_api.v1.runs_pb2 import GetRunRequest, ListRunsRequest

MAX_CHARS: Final = 200

_SHOWN: Final = 8
_KEYS_A_PAGE: Final = 1000
_REFERENCE: Final = rules_of(ListRunsRequest.DESCRIPTOR.fields_by_name["client_reference"])
# What no run has, or what may not be asked for: the search goes on with the rest.
_NO_MATCH: Final = frozenset({400, 404})


class Found(NamedTuple):
    """One thing that matches: where it is, its name, what else tells it apart, and its state."""

    path: str
    name: str
    note: str
    badge: Badge


async def show(visit: Visit) -> Answered:
    """Shows what matches: runs by id or reference, workflows and keys by a part of name or id."""
    asked = visit.query.get("q", "").strip()[:MAX_CHARS]
    runs, workflows, keys = await asyncio.gather(
        _runs(visit, asked), _workflows(visit, asked.lower()), _keys(visit, asked.lower())
    )
    groups = [(title, found) for title, found in (("Runs", runs), ("Workflows", workflows), ("Keys", keys)) if found]
    return View("search/show.html", {"asked": asked, "groups": groups, "max_chars": MAX_CHARS})


async def _runs(visit: Visit, asked: str) -> Sequence[Found]:
    if not asked:
        return ()
    reads: list[Awaitable[Iterable[Any]]] = [_of_id(visit, asked)]
    if re.fullmatch(_REFERENCE.pattern, asked):
        reads.append(_of_reference(visit, asked))
    found = [run for runs in await asyncio.gather(*reads) for run in runs]
    return [
        Found(
            run_address(run.run_id),
            run.run_id,
            f"{run.workflow_name} {run.client_reference}".strip(),
            badge,
        )
        for run in found
        for badge in (run_badge(run.status),)
    ]


async def _of_id(visit: Visit, asked: str) -> Iterable[Any]:
    try:
        return [(await visit.services.call("RunsService/GetRun", GetRunRequest(run_id=asked))).summary]
    except Refusal as refusal:
        return _nothing(refusal)


async def _of_reference(visit: Visit, asked: str) -> Iterable[Any]:
    request = ListRunsRequest(client_reference=asked, page_size=_SHOWN)
    try:
        found: Iterable[Any] = (await visit.services.call("RunsService/ListRuns", request)).items
    except Refusal as refusal:
        return _nothing(refusal)
    return found


def _nothing(refusal: Refusal) -> Iterable[Any]:
    if refusal.status not in _NO_MATCH:
        raise refusal
    return ()


async def _workflows(visit: Visit, asked: str) -> Sequence[Found]:
    matching = (
        Found(
            f"/workflows/{quote(each.workflow_id, safe='')}", each.name, each.workflow_id, workflow_badge(each.status)
        )
        for each in await every_workflow(visit)
        if asked in each.name.lower() or asked in each.workflow_id.lower()
    )
    return list(matching)[:_SHOWN]


async def _keys(visit: Visit, asked: str) -> Sequence[Found]:
    if not visit.may("KeysService/ListKeys"):
        return ()
    records: list[KeyRecord] = await all_items(
        visit.services, "KeysService/ListKeys", ListKeysRequest(page_size=_KEYS_A_PAGE)
    )
    now = now_ms()
    return [
        Found(_path("keys", each.key.key_id), each.key.name, each.key.key_id, Badge(*state_of(each, now)))
        for each in records
        if matches(each, asked)
    ][:_SHOWN]


def _path(folder: str, identifier: str) -> str:
    return f"/{folder}/{quote(identifier, safe='')}"


PAGES: Final[tuple[Page, ...]] = (Page("GET", "/search", ALL_ROLES, show),)
