import pytest

from edge.console.visit import View
from edge.errors import Refusal
from tests.unit.edge.console.run_answers import services, summary
from tests.unit.edge.console.seen import answered, html
from workflow_api.v1 import runs_pb2
from workflow_api.v1.runs_pb2 import ListRunsResponse


def test_filters_are_sent_to_the_service_and_kept_for_the_next_page() -> None:
    backend = services(ListRuns=ListRunsResponse(items=[summary()], next_page_token="c/2"))
    answer = answered(backend, "GET", "/runs", query={"status": "running", "workflow_id": "wf_1", "cursor": "c1"})
    (asked,) = backend.asked("RunsService/ListRuns")
    assert (asked.status, asked.workflow_id, asked.page_token) == ([runs_pb2.RUN_STATUS_RUNNING], "wf_1", "c1")
    assert not asked.HasField("client_reference")
    assert 'href="/runs?status=running&amp;workflow_id=wf_1&amp;cursor=c%2F2"' in html(answer)
    assert '<option value="running" selected>' in html(answer)


@pytest.mark.parametrize("code", ["invalid_filter", "invalid_cursor"])
def test_a_refused_filter_is_reported_on_the_page(code: str) -> None:
    answer = answered(services(ListRuns=Refusal(code, "status must be …")), "GET", "/runs", query={"status": "failed"})
    assert isinstance(answer, View)
    assert answer.status == 400
    assert "status must be …" in html(answer)


def test_a_status_that_there_is_not_is_told_without_asking_a_service() -> None:
    backend = services()
    answer = answered(backend, "GET", "/runs", query={"status": "x"})
    assert isinstance(answer, View)
    assert answer.status == 400
    assert "status must be a comma-separated list of queued, " in html(answer)
    assert not backend.asked("RunsService/ListRuns")
