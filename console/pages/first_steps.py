"""First steps with a new deployment, ticked off by what exists: workflow, key, run, fetched result, colleague."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from console.visit import Visit
from workflow_api.v1.keys_pb2 import ListKeysRequest
from workflow_api.v1.run_lists_pb2 import ListFoundRunsRequest, RunDay
from workflow_api.v1.usage_pb2 import ListUsageHoursRequest
from workflow_api.v1.users_pb2 import ListUsersRequest
from workflow_api.v1.workflows_pb2 import ListWorkflowsRequest

_MOST_ENDED: Final = 20
"""From so many ended runs on, a deployment is not new."""

_MOST_HOURS: Final = 1_000
_RESULTS: Final = ("/runs/{run_id}", "/runs/{run_id}/outputs")
"""Routes of results: the run itself, and all that is below its outputs."""


class FirstStep(NamedTuple):
    """A step, the page on which it is done, and whether it was done."""

    title: str
    hint: str
    path: str
    done: bool


class _Step(NamedTuple):
    title: str
    hint: str
    path: str
    needs: str
    """RPC that the person must be allowed to call to do the step."""
    fact: Callable[[Visit], Awaitable[bool]]


async def first_steps(visit: Visit, days: Sequence[RunDay]) -> Sequence[FirstStep]:
    """Returns the steps that a person may do; none once the deployment is in use, or all of them are done."""
    if sum(day.ended for day in days) >= _MOST_ENDED:
        return ()
    steps = [step for step in _STEPS if visit.may(step.needs)]
    facts = await asyncio.gather(*(step.fact(visit) for step in steps))
    if all(facts):
        return ()
    return [FirstStep(step.title, step.hint, step.path, done) for step, done in zip(steps, facts, strict=True)]


async def _has_workflow(visit: Visit) -> bool:
    return await _any(visit, "WorkflowsService/ListWorkflows", ListWorkflowsRequest(page_size=1, include_inactive=True))


async def _has_key(visit: Visit) -> bool:
    return await _any(visit, "KeysService/ListKeys", ListKeysRequest(page_size=1))


async def _has_run(visit: Visit) -> bool:
    return await _any(visit, "RunListsService/ListFoundRuns", ListFoundRunsRequest(page_size=1))


async def _has_fetched(visit: Visit) -> bool:
    answer = await visit.services.call("UsageService/ListUsageHours", ListUsageHoursRequest(page_size=_MOST_HOURS))
    return any(
        each.method == "GET"
        and each.status == HTTPStatus.OK
        and (each.route == _RESULTS[0] or each.route.startswith(_RESULTS[1]))
        for each in answer.items
    )


async def _has_colleague(visit: Visit) -> bool:
    return await _any(visit, "UsersService/ListUsers", ListUsersRequest(page_size=2), 2)


async def _any(visit: Visit, rpc: str, request: Any, least: int = 1) -> bool:
    answer = await visit.services.call(rpc, request)
    return len(answer.items) >= least


_STEPS: Final = (
    _Step(
        "Define a workflow",
        "A manifest says which agents run in which order.",
        "/workflows/new",
        "WorkflowsService/ApplyManifests",
        _has_workflow,
    ),
    _Step("Make a key", "Programs call the API with it.", "/keys/new", "KeysService/CreateKey", _has_key),
    _Step(
        "Start a run",
        "From the page of a workflow, or through the API.",
        "/workflows",
        "RunsService/StartRun",
        _has_run,
    ),
    _Step(
        "Fetch a result through the API",
        "The page of a key has commands to copy.",
        "/keys",
        "UsageService/ListUsageHours",
        _has_fetched,
    ),
    _Step(
        "Invite a colleague",
        "A role says what a person may do: look, operate, approve or administer.",
        "/people",
        "UsersService/CreateUser",
        _has_colleague,
    ),
)
