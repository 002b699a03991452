"""First steps of a new deployment: shown until they are done, ticked off by facts."""

import re
from typing import Any

from tests.unit.console.pages.test_overview import DAYS, RUNNING, in_use, overview, services
from tests.unit.console.run_answers import summary
from tests.unit.console.seen import ADMINISTRATOR, MemoryServices
from workflow_api.v1.keys_pb2 import KeyRecord, ListKeysResponse
from workflow_api.v1.run_lists_pb2 import FoundRun, GetRunDaysResponse, ListFoundRunsResponse
from workflow_api.v1.usage_pb2 import ListUsageHoursResponse, UsageHour
from workflow_api.v1.users_pb2 import ROLE_OPERATOR, ROLE_VIEWER, ListUsersResponse, User
from workflow_api.v1.workflows_pb2 import ListWorkflowsResponse, Workflow

STEPS = ["Define a workflow", "Make a key", "Start a run", "Fetch a result through the API", "Invite a colleague"]


def empty(**answers: Any) -> MemoryServices:
    backend = services(DAYS=GetRunDaysResponse())
    backend.answers |= {
        "WorkflowsService/ListWorkflows": ListWorkflowsResponse(),
        "KeysService/ListKeys": ListKeysResponse(),
        "UsageService/ListUsageHours": ListUsageHoursResponse(),
        "UsersService/ListUsers": ListUsersResponse(items=[ADMINISTRATOR]),
    }
    return backend


def steps(page: str) -> dict[str, bool]:
    found = re.findall(r'<li( class="done")?><h3>(.*?)</h3>', page, re.DOTALL)
    return {re.sub(r"<[^>]*>|done$", "", title).strip(): bool(done) for done, title in found}


def test_an_empty_deployment_begins_with_its_first_steps() -> None:
    page = overview(empty())
    assert steps(page) == dict.fromkeys(STEPS, False)
    for path in ("/workflows/new", "/keys/new", "/people"):
        assert f'href="{path}"' in page


def test_a_step_is_ticked_off_once_it_has_happened() -> None:
    backend = empty()
    facts = {
        "WorkflowsService/ListWorkflows": ListWorkflowsResponse(items=[Workflow(workflow_id="wf_1")]),
        "KeysService/ListKeys": ListKeysResponse(items=[KeyRecord()]),
        RUNNING: ListFoundRunsResponse(items=[FoundRun(run=summary())]),
        "UsageService/ListUsageHours": ListUsageHoursResponse(
            items=[UsageHour(method="GET", route="/runs/{run_id}/outputs/{output_id}/content", status=200, calls=1)]
        ),
        "UsersService/ListUsers": ListUsersResponse(items=[ADMINISTRATOR, User(name="bo")]),
    }
    for done, (rpc, answer) in enumerate(facts.items(), 1):
        backend.answers[rpc] = answer
        page = overview(backend)
        assert [*steps(page).values()] == ([True] * done + [False] * (5 - done) if done < 5 else [])


def test_a_refused_call_fetches_nothing() -> None:
    backend = empty()
    refused = UsageHour(method="GET", route="/runs/{run_id}", status=404, calls=1)
    started = UsageHour(method="POST", route="/runs/{run_id}", status=200, calls=1)
    backend.answers["UsageService/ListUsageHours"] = ListUsageHoursResponse(items=[refused, started])
    assert not steps(overview(backend))[STEPS[3]]


def test_each_role_is_shown_the_steps_that_it_may_do() -> None:
    assert [*steps(overview(empty(), User(name="o", role=ROLE_OPERATOR)))] == ["Start a run"]
    assert steps(overview(empty(), User(name="v", role=ROLE_VIEWER))) == {}


def test_a_deployment_in_use_is_asked_nothing_about_first_steps() -> None:
    backend = empty()
    backend.answers[DAYS] = in_use()
    assert steps(overview(backend)) == {}
    assert not backend.asked("KeysService/ListKeys")
