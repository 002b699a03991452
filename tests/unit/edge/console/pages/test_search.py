from typing import Any

import pytest

from edge.errors import Refusal
from tests.unit.edge.console.recorded_services import KEY_ID, key_record
from tests.unit.edge.console.seen import ADMINISTRATOR, APPROVER, Answer, MemoryServices, answered, html
from workflow_api.v1.keys_pb2 import ListKeysResponse
from workflow_api.v1.runs_pb2 import RUN_STATUS_FAILED, ListRunsResponse, Run, RunSummary
from workflow_api.v1.users_pb2 import User
from workflow_api.v1.workflows_pb2 import ListWorkflowsResponse, Workflow

RUN = RunSummary(run_id="run_1", workflow_name="Digest", client_reference="order 7", status=RUN_STATUS_FAILED)


def services(**answers: Answer) -> MemoryServices:
    given: dict[str, Answer] = {
        "GetRun": Refusal("run_not_found"),
        "ListRuns": ListRunsResponse(),
        "ListWorkflows": ListWorkflowsResponse(items=[Workflow(workflow_id="wf_1", name="Digest")]),
        "ListKeys": ListKeysResponse(items=[key_record()]),
        **answers,
    }
    of = {"GetRun": "RunsService/", "ListRuns": "RunsService/", "ListWorkflows": "WorkflowsService/"}
    return MemoryServices({of.get(name, "KeysService/") + name: answer for name, answer in given.items()})


def found(asked: str, backend: MemoryServices | None = None, user: User = ADMINISTRATOR, **query: Any) -> str:
    return html(answered(backend or services(), "GET", "/search", query={"q": asked, **query}, user=user), user)


def test_a_run_is_found_by_its_id_and_by_its_reference() -> None:
    assert 'href="/runs/run_1"' in found("run_1", services(GetRun=Run(summary=RUN)))
    backend = services(ListRuns=ListRunsResponse(items=[RUN]))
    page = found("order 7", backend)
    assert backend.asked("RunsService/ListRuns")[0].client_reference == "order 7"
    assert 'href="/runs/run_1"' in page
    assert "failed" in page


def test_workflows_and_keys_are_found_by_a_part_of_their_name_in_any_case() -> None:
    assert 'href="/workflows/wf_1"' in found("DIG")
    assert f'href="/keys/{KEY_ID}"' in found("WARE")
    assert f'href="/keys/{KEY_ID}"' in found(KEY_ID[:6])


def test_keys_are_found_by_administrators_alone() -> None:
    backend = services()
    assert KEY_ID not in found("ware", backend, user=APPROVER)
    assert backend.asked("KeysService/ListKeys") == []


@pytest.mark.parametrize("asked", ["<b>é</b>", "%00", "x" * 500])
def test_what_no_run_can_be_called_finds_nothing(asked: str) -> None:
    page = found(asked, services(GetRun=Refusal("invalid_request")))
    assert "Nothing matches" in page
    assert "<b>" not in page


def test_without_words_nothing_is_asked_of_runs() -> None:
    backend = services()
    assert 'href="/workflows/wf_1"' in found("", backend)
    assert backend.asked("RunsService/GetRun") == []


def test_a_backend_that_cannot_be_reached_is_no_empty_result() -> None:
    with pytest.raises(Refusal):
        found("run_1", services(GetRun=Refusal("runtime_unreachable")))
