import asyncio
from typing import Any

import pytest

from console.pages import run_list
from console.rendering import times
from console.visit import PageEvents, View
from contract.refusals import Refusal
from contract.times import milliseconds_of, to_duration, to_timestamp
from tests.unit.console.run_answers import EVIL, summary
from tests.unit.console.seen import APPROVER, MemoryServices, answered, html
from workflow_api.v1.keys_pb2 import ApiKey, KeyRecord, ListKeysResponse
from workflow_api.v1.run_lists_pb2 import FoundRun, GetRunDaysResponse, ListFoundRunsResponse, RunDay
from workflow_api.v1.runs_pb2 import RUN_STATUS_COMPLETED, RUN_STATUS_QUEUED, RUN_STATUS_RUNNING
from workflow_api.v1.users_pb2 import ROLE_ADMINISTRATOR, ROLE_APPROVER, ROLE_OPERATOR, ROLE_VIEWER, Role, User
from workflow_api.v1.workflows_pb2 import ListWorkflowsResponse, Workflow

FIND = "RunListsService/ListFoundRuns"
DAY = 20_000 * times.DAY_MS


def services(*found: FoundRun, token: str | None = None, days: GetRunDaysResponse | None = None) -> MemoryServices:
    key = KeyRecord(key=ApiKey(key_id="ak_1", name="warehouse"))
    return MemoryServices(
        {
            FIND: ListFoundRunsResponse(items=found, next_page_token=token),
            "RunListsService/GetRunDays": days or GetRunDaysResponse(),
            "WorkflowsService/ListWorkflows": ListWorkflowsResponse(items=[Workflow(workflow_id="wf_1", name="D")]),
            "KeysService/ListKeys": ListKeysResponse(items=[key]),
        }
    )


def found(**fields: Any) -> FoundRun:
    return FoundRun(run=summary(**fields.pop("run", {})), **fields)


def test_the_address_holds_text_and_filters_for_the_service_and_the_next_page() -> None:
    backend = services(found(), token="c/2")
    query = {
        "q": " order 7 ",
        "status": "running",
        "workflow_id": "wf_1",
        "key": "ak_1",
        "from": "2026-09-01",
        "to": "2026-09-02",
    }
    page = html(answered(backend, "GET", "/runs", query={**query, "cursor": "c1"}))
    (asked,) = backend.asked(FIND)
    assert (asked.search, asked.status, asked.workflow_id) == ("order 7", [RUN_STATUS_RUNNING], "wf_1")
    assert (asked.key_id, asked.page_token) == ("ak_1", "c1")
    began = times.start_of_day("2026-09-01")
    within = [milliseconds_of(asked.created_after), milliseconds_of(asked.created_before)]
    assert within == [began - 1, began + 2 * times.DAY_MS]
    address = "q=order+7&amp;status=running&amp;workflow_id=wf_1&amp;key=ak_1&amp;from=2026-09-01&amp;to=2026-09-02"
    assert f'href="/runs?{address}&amp;cursor=c%2F2"' in page
    assert f'href="/runs?{address}"' in page
    assert '<option value="running" selected>' in page


def test_without_filters_all_runs_are_asked_for_and_the_first_page_is_live() -> None:
    backend = services(found())
    page = html(answered(backend, "GET", "/runs"))
    (asked,) = backend.asked(FIND)
    assert not asked.HasField("key_id")
    assert not asked.HasField("workflow_id")
    assert 'data-stream="/runs/stream?"' in page
    assert "data-stream" not in html(answered(backend, "GET", "/runs", query={"cursor": "c1"}))


def test_runs_of_people_are_a_filter_of_the_key() -> None:
    backend = services()
    answered(backend, "GET", "/runs", query={"key": run_list.NO_KEY})
    (asked,) = backend.asked(FIND)
    assert (asked.HasField("key_id"), asked.key_id) == (True, "")


@pytest.mark.parametrize("code", ["invalid_filter", "invalid_request"])
def test_a_refused_filter_is_reported_on_the_page(code: str) -> None:
    backend = services()
    backend.answers[FIND] = Refusal(code, "status must be …")
    answer = answered(backend, "GET", "/runs", query={"status": "failed"})
    assert isinstance(answer, View)
    assert (answer.status, "status must be …" in html(answer)) == (400, True)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"status": "x"}, "status must be a comma-separated list of queued, "),
        ({"from": "1 May"}, "A day is written as"),
    ],
)
def test_a_filter_that_cannot_be_is_told_without_asking_a_service(query: dict[str, str], message: str) -> None:
    backend = services()
    answer = answered(backend, "GET", "/runs", query=query)
    assert isinstance(answer, View)
    assert (answer.status, message in html(answer), backend.asked(FIND)) == (400, True, [])


def test_a_run_shows_how_long_it_took_and_waited_and_who_started_it() -> None:
    ended = found(
        run={"status": RUN_STATUS_COMPLETED, "duration": to_duration(61_000), "labels": {"team": "a&b"}},
        waited=to_duration(1_500),
        started_by="warehouse",
    )
    page = html(answered(services(ended), "GET", "/runs"))
    assert "<td>1 min 1 s</td>" in page
    assert "<td>1.5 s</td>" in page
    assert "<td>warehouse</td>" in page
    assert 'href="/runs?q=team%3Da%26b"' in page


def test_what_waits_or_runs_counts_until_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(times, "now_ms", lambda: DAY + 9_000)
    running = found(run={"started_at": to_timestamp(DAY)}, waited=to_duration(1_000))
    waits = found(run={"status": RUN_STATUS_QUEUED}, waiting_since=to_timestamp(DAY + 5_000))
    page = html(answered(services(running, waits), "GET", "/runs"))
    assert "<td>9 s</td>" in page
    assert '<td>4 s <span class="soft whole">and waits</span></td>' in page


def test_a_search_that_found_nothing_yet_can_go_on() -> None:
    page = html(answered(services(token="c2"), "GET", "/runs", query={"q": "a", "status": "failed"}))
    assert 'href="/runs?q=a&amp;status=failed&amp;cursor=c2">Go on</a>' in page


def test_the_last_days_are_a_drawing_and_a_table() -> None:
    busy = RunDay(day=to_timestamp(DAY), ended=200, failed=3, median=to_duration(1_000), p95=to_duration(9_000))
    quiet = RunDay(day=to_timestamp(DAY + times.DAY_MS))
    page = html(answered(services(days=GetRunDaysResponse(days=[busy, quiet])), "GET", "/runs"))
    assert "2024-10-04: 200 ended, 3 failed, median 1 s, 95 % within 9 s" in page
    assert '<dd>3 <span class="soft">1.5 %</span></dd>' in page
    assert 'href="/runs?from=2024-10-04&amp;to=2024-10-04"' in page
    assert page.count('class="day-median"') == 1


def test_values_are_never_markup_and_approvers_see_no_keys() -> None:
    backend = services(found(run={"client_reference": EVIL, "labels": {EVIL: EVIL}}, started_by=EVIL))
    page = html(answered(backend, "GET", "/runs", query={"q": EVIL}, user=APPROVER), APPROVER)
    assert EVIL not in page
    assert "warehouse" not in page
    assert not backend.asked("KeysService/ListKeys")


def test_rows_have_boxes_for_who_may_change_runs_and_buttons_for_what_they_may() -> None:
    def page(role: Role.ValueType) -> str:
        user = User(name="eve", role=role)
        return html(answered(services(found()), "GET", "/runs", query={"status": "running"}, user=user), user)

    operated, administered = page(ROLE_OPERATOR), page(ROLE_ADMINISTRATOR)
    for shown in (operated, administered):
        assert 'name="run_id" value="run_1" aria-label="Select run run_1"' in shown
        assert 'name="filters" value="status=running"' in shown
        assert 'formaction="/runs/cancel"' in shown
        assert 'formaction="/runs/resume"' in shown
    assert ('formaction="/runs/erase"' in operated, 'formaction="/runs/erase"' in administered) == (False, True)
    for role in (ROLE_VIEWER, ROLE_APPROVER):
        assert "checkbox" not in page(role)
        assert "formaction" not in page(role)


def test_a_change_of_the_newest_runs_refreshes_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_list, "POLL_SECONDS", 0)
    backend = services(found(), token="sealed")
    pages = iter(["once", "again", "other"])

    def newest(_: Any) -> ListFoundRunsResponse:
        token = next(pages)
        items = [found()] if token != "other" else [found(), found()]
        return ListFoundRunsResponse(items=items, next_page_token=token)

    backend.answers[FIND] = newest
    answer = answered(backend, "GET", "/runs/stream", query={"status": "running"})
    assert isinstance(answer, PageEvents)

    async def first() -> tuple[str, str]:
        return await anext(answer.events)

    assert asyncio.run(first()) == ("refresh", "changed")
    assert [asked.status for asked in backend.asked(FIND)] == [[RUN_STATUS_RUNNING]] * 3


def test_a_refresh_reads_what_changes_and_leaves_the_choices_of_the_filters() -> None:
    backend = services(found())
    html(answered(backend, "GET", "/runs", refresh=True))
    assert {rpc for rpc, _ in backend.calls} == {FIND, "RunListsService/GetRunDays"}
