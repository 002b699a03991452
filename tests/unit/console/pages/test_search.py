from typing import Any

import pytest

from contract.refusals import Refusal
from tests.unit.console.recorded_services import KEY_ID
from tests.unit.console.seen import ADMINISTRATOR, APPROVER, UNSEEN, Answer, MemoryServices, answered, html
from workflow_api.v1.definitions_pb2 import (
    FindResourcesResponse,
    FindWorkflowsRequest,
    FindWorkflowsResponse,
    FoundResource,
    FoundWorkflow,
)
from workflow_api.v1.keys_pb2 import FindKeysResponse, FoundKey
from workflow_api.v1.run_lists_pb2 import FoundRun, ListFoundRunsResponse
from workflow_api.v1.runs_pb2 import RUN_STATUS_FAILED, Run, RunSummary
from workflow_api.v1.users_pb2 import ROLE_VIEWER, User
from workflow_api.v1.workflows_pb2 import (
    RESOURCE_KIND_AGENT,
    RESOURCE_KIND_CONNECTOR,
    WORKFLOW_STATUS_ACTIVE,
    WORKFLOW_STATUS_INACTIVE,
)

VIEWER = User(name="vic", role=ROLE_VIEWER)
EVIL = f"<script>alert(1)</script>{UNSEEN}"
RUN = RunSummary(run_id="run_1", workflow_name="Digest", client_reference="order 7", status=RUN_STATUS_FAILED)


def services(**answers: Answer) -> MemoryServices:
    given: dict[str, Answer] = {
        "GetRun": Refusal("run_not_found"),
        "ListFoundRuns": ListFoundRunsResponse(),
        "FindWorkflows": FindWorkflowsResponse(items=[FoundWorkflow(workflow_id="wf_1", name="Digest")]),
        "FindResources": FindResourcesResponse(
            items=[
                FoundResource(kind=RESOURCE_KIND_AGENT, resource_id="agt_1", name="counter", version=3),
                FoundResource(kind=RESOURCE_KIND_CONNECTOR, resource_id="con_1", name=EVIL, version=1),
            ]
        ),
        "FindKeys": FindKeysResponse(items=[FoundKey(key_id=KEY_ID, name="Warehouse", state="active")]),
        **answers,
    }
    of = {"GetRun": "RunsService/", "ListFoundRuns": "RunListsService/", "FindKeys": "KeysService/"}
    return MemoryServices({of.get(name, "DefinitionsService/") + name: answer for name, answer in given.items()})


def found(asked: str, backend: MemoryServices | None = None, user: User = ADMINISTRATOR, **query: Any) -> str:
    return html(answered(backend or services(), "GET", "/search", query={"q": asked, **query}, user=user), user)


def test_a_run_is_found_by_its_id_and_by_the_search_of_the_list_of_runs() -> None:
    assert 'href="/runs/run_1"' in found("run_1", services(GetRun=Run(summary=RUN)))
    backend = services(GetRun=Run(summary=RUN), ListFoundRuns=ListFoundRunsResponse(items=[FoundRun(run=RUN)]))
    page = found("order 7", backend)
    assert backend.asked("RunListsService/ListFoundRuns")[0].search == "order 7"
    assert page.count('href="/runs/run_1"') == 1
    assert 'href="/runs/run_1"' in page
    assert "failed" in page


def test_definitions_and_keys_are_found_by_bounded_searches_of_the_service() -> None:
    backend = services()
    page = found("ware", backend)
    for path in ("/workflows/wf_1", "/agents/agt_1", "/resources/connectors/con_1", f"/keys/{KEY_ID}"):
        assert f'href="{path}"' in page
    assert EVIL not in page
    for rpc in ("DefinitionsService/FindWorkflows", "DefinitionsService/FindResources", "KeysService/FindKeys"):
        (asked,) = backend.asked(rpc)
        assert (asked.text, asked.most) == ("ware", 8)


def test_a_search_asks_only_for_what_the_person_may_open() -> None:
    backend = services()
    assert KEY_ID not in found("ware", backend, user=APPROVER)
    assert backend.asked("KeysService/FindKeys") == []
    assert backend.asked("DefinitionsService/FindResources") == []
    answers = FindResourcesResponse(
        items=[FoundResource(kind=RESOURCE_KIND_AGENT, resource_id="agt_1", name="counter")]
    )
    backend = services(FindResources=answers)
    assert 'href="/agents/agt_1"' in found("count", backend, user=VIEWER)
    assert list(backend.asked("DefinitionsService/FindResources")[0].kinds) == [RESOURCE_KIND_AGENT]


@pytest.mark.parametrize("asked", ["<b>é</b>", "%00", "x" * 500])
def test_what_no_run_can_be_called_finds_nothing(asked: str) -> None:
    nothing = {"FindWorkflows": FindWorkflowsResponse(), "FindResources": FindResourcesResponse()}
    refused = {"GetRun": Refusal("invalid_request"), "ListFoundRuns": Refusal("invalid_filter")}
    page = found(asked, services(FindKeys=FindKeysResponse(), **refused, **nothing))
    assert "Nothing matches" in page
    assert "<b>" not in page


def test_without_words_nothing_is_asked_of_runs() -> None:
    backend = services()
    assert 'href="/workflows/wf_1"' in found("", backend)
    assert backend.asked("RunsService/GetRun") == []


def test_an_active_workflow_is_started_from_the_search_by_those_who_may() -> None:
    workflows = [
        FoundWorkflow(workflow_id="wf_1", name="Digest", status=WORKFLOW_STATUS_ACTIVE),
        FoundWorkflow(workflow_id="wf_2", name="Digest of old", status=WORKFLOW_STATUS_INACTIVE),
    ]
    backend = services(FindWorkflows=FindWorkflowsResponse(items=workflows), FindResources=FindResourcesResponse())
    page = found("Start dig", backend)
    assert backend.asked("DefinitionsService/FindWorkflows")[0].text == "dig"
    assert 'href="/workflows/wf_1/start"' in page
    assert 'href="/workflows/wf_2/start"' not in page
    assert 'href="/workflows/wf_1/start"' not in found("Start dig", backend, user=VIEWER)


def test_actions_are_found_by_all_words_by_those_who_may_take_them() -> None:
    assert 'href="/keys/new"' in found("create key")
    assert 'href="/keys/new"' not in found("create schedule")
    assert 'href="/keys/new"' not in found("create key", user=APPROVER)


def test_settings_are_found_by_their_words_and_set_by_a_button() -> None:
    page = found("dark")
    assert 'action="/preferences"' in page
    assert '<input type="hidden" name="theme" value="dark">' in page
    assert 'value="light"' not in page
    assert 'action="/preferences"' not in found("")


@pytest.mark.parametrize("asked", ["digset", "dgst", "start digets"])
def test_a_workflow_is_found_in_spite_of_a_mistake_where_nothing_else_is(asked: str) -> None:
    workflow = FoundWorkflow(workflow_id="wf_1", name="Text digest", status=WORKFLOW_STATUS_ACTIVE)

    def answer(request: FindWorkflowsRequest) -> FindWorkflowsResponse:
        return FindWorkflowsResponse(items=[] if request.text else [workflow])

    nothing = {"FindResources": FindResourcesResponse(), "FindKeys": FindKeysResponse()}
    assert 'href="/workflows/wf_1"' in found(asked, services(FindWorkflows=answer, **nothing))
    named = services(FindWorkflows=answer)
    assert 'href="/workflows/wf_1"' not in found(asked, named), "a key is named so"


def test_actions_and_pages_are_found_in_spite_of_a_mistake() -> None:
    assert 'href="/schedules"' in found("shcedule")
    assert 'href="/keys/new"' in found("nwe key")
    assert 'name="theme" value="dark"' in found("drak")
    assert 'name="theme" value="light"' not in found("dark")


def test_a_backend_that_cannot_be_reached_is_no_empty_result() -> None:
    with pytest.raises(Refusal):
        found("run_1", services(GetRun=Refusal("runtime_unreachable")))
