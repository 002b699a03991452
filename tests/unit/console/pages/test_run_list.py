import asyncio
import re
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from console.pages import run_list
from console.rendering import times
from console.visit import PageEvents, View
from contract.refusals import Refusal
from contract.times import milliseconds_of, to_duration, to_timestamp
from tests.unit.console.run_answers import EVIL, summary
from tests.unit.console.seen import APPROVER, MemoryServices, answered, html, sent_html
from workflow_api.v1.keys_pb2 import ApiKey, KeyRecord, ListKeysResponse
from workflow_api.v1.run_lists_pb2 import FoundRun, GetRunDaysResponse, ListFoundRunsResponse, RunDay, RunOrder
from workflow_api.v1.runs_pb2 import (
    RUN_STATUS_COMPLETED,
    RUN_STATUS_FAILED,
    RUN_STATUS_QUEUED,
    RUN_STATUS_RUNNING,
    RunError,
)
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


@pytest.mark.parametrize(
    ("refusal", "name", "value"),
    [
        (Refusal("invalid_filter", "search must be …."), "q", "a&amp;b"),
        (Refusal("invalid_filter", "started_by must be …."), "by", "a&amp;b"),
        (Refusal("invalid_request", details=[{"name": "created_before", "reason": "must be …"}]), "to", "2026-09-24"),
    ],
)
def test_a_refused_filter_is_reported_beside_its_field_with_its_value(refusal: Refusal, name: str, value: str) -> None:
    backend = services()
    backend.answers[FIND] = refusal
    answer = answered(backend, "GET", "/runs", query={"status": "failed", name: unescape(value)})
    assert isinstance(answer, View)
    page = html(answer)
    assert answer.status == 400
    assert f'<span class="error" id="field-{name}-error">must be …, not “{value}”</span>' in page
    assert '<option value="failed" selected>' in page
    assert f'name="{name}"' in page
    assert f'value="{value}"' in page


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"status": "x"}, 'id="field-status-error">must be a comma-separated list of queued, '),
        ({"from": "1 May"}, f'id="field-from-error">{times.DAY_RULE}, not “1 May”<'),
        ({"from": "0001-01-01"}, f'id="field-from-error">{times.DAY_RULE}, not “0001-01-01”<'),
        ({"to": "9999-12-31"}, f'id="field-to-error">{times.DAY_RULE}, not “9999-12-31”<'),
        ({"sort": "size"}, '<p class="problem" role="alert">sort must be one of oldest, duration, '),
    ],
)
def test_a_filter_that_cannot_be_is_told_without_asking_a_service(query: dict[str, str], message: str) -> None:
    backend = services()
    answer = answered(backend, "GET", "/runs", query={**query, "q": "kept"})
    assert isinstance(answer, View)
    assert (answer.status, message in html(answer), backend.asked(FIND)) == (400, True, [])
    assert 'value="kept"' in html(answer)


def test_a_page_that_the_list_does_not_have_is_told_and_leads_to_the_first_one() -> None:
    backend = services()
    reason = "must be the next_page_token of a page of this list"
    backend.answers[FIND] = Refusal("invalid_request", details=[{"name": "page_token", "reason": reason}])
    answer = answered(backend, "GET", "/runs", query={"cursor": "x", "q": "a"})
    assert isinstance(answer, View)
    page = html(answer)
    assert (answer.status, f"cursor {reason}, not “x”." in page) == (400, True)
    assert '<a href="/runs?q=a">Show the first page</a>' in page


def test_a_run_shows_how_long_it_took_and_waited_and_who_started_it() -> None:
    ended = found(
        run={"status": RUN_STATUS_COMPLETED, "duration": to_duration(61_000), "labels": {"team": "a&b"}},
        waited=to_duration(1_500),
        started_by="warehouse",
    )
    page = html(answered(services(ended), "GET", "/runs"))
    assert '<td class="number">1 min 1 s<span class="soft line">waited 1.5 s</span></td>' in page
    assert '<span class="clamped soft by" title="by warehouse">by warehouse</span>' in page
    assert 'href="/runs?q=team%3Da%26b"' in page


def test_what_waits_or_runs_counts_until_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(times, "now_ms", lambda: DAY + 9_000)
    running = found(run={"started_at": to_timestamp(DAY)}, waited=to_duration(1_000))
    waits = found(run={"status": RUN_STATUS_QUEUED}, waiting_since=to_timestamp(DAY + 5_000))
    page = html(answered(services(running, waits), "GET", "/runs"))
    assert '<td class="number">9 s<span class="soft line">waited 1 s</span></td>' in page
    assert '<td class="number">\N{EN DASH}<span class="soft line">waits 4 s</span></td>' in page


def test_a_failed_run_says_why_on_one_line_and_its_id_can_be_copied() -> None:
    error = RunError(code="node_failed", message="Step 'sum' failed:\n  <no column 'total'>")
    run_id = "run_01m8j71kkgf0k6g80qg6jwczwb"
    failed = found(run={"run_id": run_id, "status": RUN_STATUS_FAILED}, error=error)
    page = html(answered(services(failed), "GET", "/runs"))
    why = "Step &#39;sum&#39; failed: &lt;no column &#39;total&#39;&gt;"
    assert f'<span class="failure" title="{why}">{why}</span>' in page
    assert '<code title="run_01m8j71kkgf0k6g80qg6jwczwb" aria-hidden="true">run_…g6jwczwb</code>' in page
    assert f'<span class="hidden" id="id-{run_id}">{run_id}</span>' in page
    assert f'data-copy="id-{run_id}" aria-label="Copy the id {run_id}"' in page


@pytest.mark.parametrize(
    ("used", "shown"),
    [
        ({"model_calls": 2, "tokens": 1_234, "cost_microusd": 12_345}, "0.0123"),
        ({"model_calls": 2, "tokens": 1_234, "cost_microusd": 12_345, "unpriced_calls": 1}, "at least 0.0123"),
        ({"model_calls": 2, "tokens": 1_234, "unpriced_calls": 2}, "\N{EN DASH}"),
    ],
)
def test_a_run_that_called_models_shows_its_known_cost_and_its_tokens(used: dict[str, int], shown: str) -> None:
    page = html(answered(services(found(**used)), "GET", "/runs"))
    assert f'<td class="number">{shown}<span class="soft line">1,234 tokens</span></td>' in page


def test_each_filter_is_a_chip_that_can_be_removed_alone() -> None:
    query = {"q": "a&b", "status": "failed,cancelled", "workflow_id": "wf_1", "key": "ak_1", "from": "2026-09-01"}
    page = html(answered(services(found()), "GET", "/runs", query=query))
    chips = re.findall(r'<a href="([^"]+)" title="([^"]+)"><span class="hidden">Remove the filter', page)
    named = {text: parse_qs(urlsplit(unescape(path)).query) for path, text in chips}
    words = ["Find: a&amp;b", "Status: failed, cancelled", "Workflow: D", "Key: warehouse", "From: 2026-09-01"]
    assert list(named) == words
    for text, (name, left) in zip(named, query.items(), strict=True):
        assert named[text] == {each: [value] for each, value in query.items() if each != name}, left


def test_usual_lists_are_links_and_the_present_one_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(times, "now_ms", lambda: DAY + 9_000)
    page = html(answered(services(found()), "GET", "/runs", query={"status": "failed", "from": "2024-10-03"}))
    failed = "/runs?status=failed&amp;from=2024-10-03"
    assert f'<a href="{failed}" aria-current="true">Failed since yesterday</a>' in page
    assert '<a href="/runs">All</a>' in page


def test_the_oldest_runs_come_first_on_request_and_the_next_page_is_newer() -> None:
    newest = html(answered(services(found(), token="c2"), "GET", "/runs", query={"status": "failed"}))
    assert 'aria-sort="descending"><a href="/runs?status=failed&amp;sort=oldest">Created</a></th>' in newest
    backend = services(found(), token="c2")
    oldest = html(answered(backend, "GET", "/runs", query={"status": "failed", "sort": "oldest"}))
    assert 'aria-sort="ascending"><a href="/runs?status=failed">Created</a></th>' in oldest
    assert '<a href="/runs?status=failed&amp;sort=oldest&amp;cursor=c2" rel="next">Newer</a>' in oldest
    (asked,) = backend.asked(FIND)
    assert asked.oldest_first


def test_a_full_page_of_long_runs_has_less_than_150_kilobytes() -> None:
    labels = {f"label-{number}": "v" * 60 for number in range(8)}
    run = {"client_reference": "r" * 200, "labels": labels, "status": RUN_STATUS_FAILED}
    error = RunError(code="node_failed", message="e" * 300)
    long = [found(run={"run_id": f"run_{number:026}", **run}, error=error) for number in range(50)]
    assert len(sent_html(answered(services(*long, token="c" * 200), "GET", "/runs")).encode()) < 150_000


def test_a_search_that_found_nothing_yet_can_go_on() -> None:
    page = html(answered(services(token="c2"), "GET", "/runs", query={"q": "a", "status": "failed"}))
    assert 'href="/runs?q=a&amp;status=failed&amp;cursor=c2">Go on</a>' in page


def test_the_last_days_are_a_drawing_and_a_table() -> None:
    busy = RunDay(day=to_timestamp(DAY), ended=200, failed=3, median=to_duration(1_000), p95=to_duration(9_000))
    quiet = RunDay(day=to_timestamp(DAY + times.DAY_MS))
    page = html(answered(services(days=GetRunDaysResponse(days=[busy, quiet])), "GET", "/runs"))
    assert "2024-10-04: 200 ended, 3 failed, median 1 s, 95 % within 9 s" in page
    assert '<b>3</b> failed <span class="soft">(1.5 %)</span>' in page
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


@pytest.mark.parametrize(
    ("sort", "order", "head"),
    [
        (
            "-duration",
            RunOrder.RUN_ORDER_DURATION_DESCENDING,
            'aria-sort="descending"><a href="/runs?sort=duration">Dura',
        ),
        ("cost", RunOrder.RUN_ORDER_COST_ASCENDING, 'aria-sort="ascending"><a href="/runs?sort=-cost">Cost'),
        ("status", RunOrder.RUN_ORDER_STATUS_ASCENDING, 'aria-sort="ascending"><a href="/runs?sort=-status">Status'),
    ],
)
def test_heads_of_columns_order_the_runs_page_by_page(sort: str, order: RunOrder.ValueType, head: str) -> None:
    backend = services(found(), token="c2")
    page = html(answered(backend, "GET", "/runs", query={"sort": sort}))
    (asked,) = backend.asked(FIND)
    assert (asked.order, asked.oldest_first) == (order, False)
    assert head in page
    assert 'aria-sort="none"><a href="/runs">Created</a>' in page
    assert f'<a href="/runs?sort={sort}&amp;cursor=c2" rel="next">Next</a>' in page
    assert "data-stream" not in page


def test_an_order_of_some_of_the_runs_says_since_when_they_were_created() -> None:
    backend = services(found())
    said = "This order looks at 2,000 runs at most"
    assert said not in html(answered(backend, "GET", "/runs", query={"sort": "cost"}))
    backend.answers[FIND] = ListFoundRunsResponse(items=[found()], ordered_since=to_timestamp(DAY))
    assert said in html(answered(backend, "GET", "/runs", query={"sort": "cost"}))


def test_an_order_without_a_match_says_how_far_it_looked_and_leads_on() -> None:
    backend = services()
    backend.answers[FIND] = ListFoundRunsResponse(ordered_since=to_timestamp(DAY))
    query = {"q": "a", "sort": "cost"}
    page = html(answered(backend, "GET", "/runs", query=query))
    assert "No match so far: the search has looked at the newest 2,000 runs" in page
    assert times.utc_text(DAY)[:10] in page
    on = '<a href="/runs?q=a&amp;sort=cost&amp;to=2024-10-04">Look at earlier ones</a>'
    assert on in page
    last = html(answered(backend, "GET", "/runs", query={**query, "to": "2024-10-04"}))
    assert ("No match so far" in last, "Look at earlier ones" in last) == (True, False)


@pytest.mark.parametrize(("by", "actor"), [("ana", "user:ana"), ("cli:root", "cli:root")])
def test_runs_of_a_person_are_asked_for_by_their_actor(by: str, actor: str) -> None:
    backend = services(found())
    page = html(answered(backend, "GET", "/runs", query={"by": by}))
    (asked,) = backend.asked(FIND)
    assert asked.started_by == actor
    assert f"Started by: {by}" in page


def test_those_who_may_start_runs_have_a_list_of_their_own() -> None:
    operator = User(name="olu", role=ROLE_OPERATOR)
    assert '<a href="/runs?by=olu">Mine</a>' in html(answered(services(), "GET", "/runs", user=operator))
    assert ">Mine<" not in html(answered(services(), "GET", "/runs", user=User(name="vi", role=ROLE_VIEWER)))


def test_saved_views_of_the_list_stand_above_it_and_filters_can_be_saved_as_one() -> None:
    user = User(name="ana", role=ROLE_ADMINISTRATOR)
    user.views.add(name=EVIL, address="/runs?status=failed&q=a")
    user.views.add(name="Sign-ins", address="/audit?q=a")
    plain = sent_html(answered(services(), "GET", "/runs", user=user), user)
    assert '<a href="/runs?status=failed&amp;q=a">' in plain
    assert EVIL not in plain
    assert "Sign-ins" not in plain
    assert "save-view" not in plain
    other = sent_html(answered(services(), "GET", "/runs", query={"status": "failed"}, user=user), user)
    assert '<input type="hidden" name="address" value="/runs?status=failed">' in other
    user.views.add(name="Failed", address="/runs?status=failed")
    assert "save-view" not in sent_html(
        answered(services(), "GET", "/runs", query={"status": "failed"}, user=user), user
    )
