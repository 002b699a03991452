"""GET /runs: order, filters, cursors. (contract 15)"""

import base64
import threading
from typing import Any
from urllib.parse import quote

import pytest

from tests.contract.conftest import NewCaller
from tests.support.client import Caller, with_query
from tests.support.expect import invalid, is_timestamp, refused

SUMMARY = {
    "run_id",
    "workflow_id",
    "workflow_name",
    "version",
    "status",
    "created_at",
    "started_at",
    "finished_at",
    "duration_ms",
    "client_reference",
    "labels",
    "counts",
    "warnings",
    "completed_with_warnings",
    "links",
}


@pytest.fixture(scope="module")
def lister(service: Any, flows: dict[str, str]) -> Caller:
    """A caller with a few runs of several kinds, oldest first: two Echo, a Failure, a parked, a cancelled one."""
    caller: Caller = service.new_caller(name="lister")
    caller.finished(flows["Echo"], client_reference="a, b")
    caller.finished(flows["Echo"], client_reference="other")
    caller.finished(flows["Failure"])
    caller.parked(flows["Park"])
    run = caller.parked(flows["Park"])
    caller.post(f"/runs/{run['run_id']}/cancel")
    caller.wait(run["run_id"], "cancelled")
    return caller


def listed(caller: Caller, **query: Any) -> list[dict[str, Any]]:
    answer = caller.get("/runs", **query)
    assert answer.status == 200, answer
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


def test_runs_are_listed_newest_first_as_summaries(lister: Caller) -> None:
    answer = lister.get("/runs?limit=100").json()
    assert set(answer) == {"items", "next_cursor"}
    assert answer["next_cursor"] is None
    order = [(item["created_at"], item["run_id"]) for item in answer["items"]]
    assert order == sorted(order, reverse=True)
    assert [item["status"] for item in answer["items"]] == [
        "cancelled",
        "waiting_for_approval",
        "failed",
        "completed",
        "completed",
    ]
    for item in answer["items"]:
        assert set(item) == SUMMARY
        assert is_timestamp(item["created_at"])


def test_a_summary_is_the_base_of_the_detail(lister: Caller) -> None:
    for item in listed(lister):
        detail = lister.run(item["run_id"])
        assert {field: detail[field] for field in SUMMARY} == item


def test_a_page_is_twenty_unless_asked_otherwise(new_caller: NewCaller, flows: dict[str, str]) -> None:
    caller = new_caller()
    ids = [caller.started(flows["Park"]) for _ in range(22)]
    page = caller.get("/runs").json()
    assert [item["run_id"] for item in page["items"]] == ids[:-21:-1]
    rest = caller.get("/runs", cursor=page["next_cursor"]).json()
    assert [item["run_id"] for item in rest["items"]] == ids[1::-1]
    assert rest["next_cursor"] is None


def test_the_last_full_page_has_no_next_cursor(lister: Caller) -> None:
    assert lister.get("/runs?limit=5").json()["next_cursor"] is None
    assert lister.get("/runs?limit=4").json()["next_cursor"] is not None


def test_pages_are_complete_while_runs_are_started(new_caller: NewCaller, flows: dict[str, str]) -> None:
    caller = new_caller()
    before = [caller.started(flows["Park"]) for _ in range(30)]
    ended = threading.Event()

    def go_on() -> None:
        while not ended.is_set():
            caller.start(flows["Park"])

    starter = threading.Thread(target=go_on)
    starter.start()
    try:
        seen, cursor = [], ""
        while cursor is not None:
            page = caller.get("/runs", limit=3, cursor=cursor).json()
            seen += [item["run_id"] for item in page["items"]]
            cursor = page["next_cursor"]
    finally:
        ended.set()
        starter.join()
    assert len(seen) == len(set(seen))
    assert set(before) <= set(seen)
    assert [run_id for run_id in seen if run_id in set(before)] == before[::-1]


@pytest.mark.parametrize(
    ("status", "count"),
    [
        ("completed", 2),
        ("failed,completed", 3),
        (" failed , waiting_for_approval ", 2),
        ("cancelled", 1),
        ("running", 0),
        ("queued,running,waiting_for_approval,completed,failed,cancelled", 5),
        ("completed,completed", 2),
    ],
)
def test_status_filters_by_a_comma_separated_list(lister: Caller, status: str, count: int) -> None:
    assert len(listed(lister, status=status)) == count


@pytest.mark.parametrize("status", ["done", "completed,", ",", "", "COMPLETED", "completed;failed", "x" * 201])
def test_a_bad_status_is_an_invalid_filter(lister: Caller, status: str) -> None:
    refused(lister.get("/runs", status=status), 400, "invalid_filter")


def test_workflow_id_filters_and_an_unknown_one_lists_nothing(lister: Caller, flows: dict[str, str]) -> None:
    assert {item["workflow_name"] for item in listed(lister, workflow_id=flows["Echo"])} == {"Echo"}
    assert len(listed(lister, workflow_id=flows["Echo"])) == 2
    assert listed(lister, workflow_id="wf_none") == []
    refused(lister.get("/runs", workflow_id="w" * 129), 400, "invalid_filter")


def test_client_reference_filters_exactly(lister: Caller) -> None:
    assert len(listed(lister, client_reference="a, b")) == 1
    assert listed(lister, client_reference="a") == []
    assert listed(lister, client_reference="A, B") == []


@pytest.mark.parametrize("reference", ["x" * 257, "é", "a\tb", "a\0b"])
def test_a_bad_client_reference_is_an_invalid_filter(lister: Caller, reference: str) -> None:
    refused(lister.get("/runs", client_reference=reference), 400, "invalid_filter")


def test_date_filters_exclude_their_own_instant(lister: Caller) -> None:
    items = listed(lister)
    middle = items[2]["created_at"]
    after = [item["run_id"] for item in listed(lister, created_after=middle)]
    before = [item["run_id"] for item in listed(lister, created_before=middle)]
    assert after == [item["run_id"] for item in items if item["created_at"] > middle]
    assert before == [item["run_id"] for item in items if item["created_at"] < middle]
    assert items[2]["run_id"] not in after + before


def test_a_date_time_without_offset_is_utc_and_offsets_are_applied(lister: Caller) -> None:
    middle = listed(lister)[2]["created_at"]
    wanted = listed(lister, created_after=middle)
    assert middle.endswith("+00:00")
    naive = middle.removesuffix("+00:00")
    assert listed(lister, created_after=naive) == wanted
    assert listed(lister, created_after=naive + "Z") == wanted
    assert lister.get(f"/runs?created_after={naive}+00:00").json()["items"] == wanted
    assert lister.get(f"/runs?created_after={quote(naive)}%2B00:00").json()["items"] == wanted
    east = f"{int(naive[11:13]) - 1:02}" if naive[11:13] != "00" else None
    if east is not None:
        assert listed(lister, created_after=f"{naive[:11]}{east}{naive[13:]}-01:00") == wanted


@pytest.mark.parametrize(
    "date",
    [
        "2026-09-24",
        "yesterday",
        "",
        "2026-13-01T00:00:00Z",
        "2026-02-30T00:00:00Z",
        "1e9",
        "2026-09-24T25:00:00Z",
        "x" * 65,
        "2026-09-24T10:00:00+99:00",
        "2026-09-24T10:00:00\0",
    ],
)
@pytest.mark.parametrize("field", ["created_after", "created_before"])
def test_a_bad_date_is_an_invalid_filter(lister: Caller, field: str, date: str) -> None:
    refused(lister.get(with_query("/runs", **{field: date})), 400, "invalid_filter")


@pytest.mark.parametrize("date", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00+23:59"])
def test_dates_at_the_ends_of_the_range_are_answered_or_refused(lister: Caller, date: str) -> None:
    assert lister.get("/runs", created_after=date).status in {200, 400}
    assert lister.get("/runs", created_before=date).status in {200, 400}


def test_filters_go_together_and_with_pages(lister: Caller, flows: dict[str, str]) -> None:
    query: dict[str, Any] = {"status": "completed,failed", "workflow_id": flows["Echo"], "limit": 1}
    first = lister.get("/runs", **query).json()
    second = lister.get("/runs", **query, cursor=first["next_cursor"]).json()
    assert [item["client_reference"] for item in first["items"] + second["items"]] == ["other", "a, b"]
    assert second["next_cursor"] is None


def cursor_of(caller: Caller) -> str:
    cursor: str = caller.get("/runs?limit=1").json()["next_cursor"]
    assert cursor
    return cursor


def test_a_cursor_is_url_safe(lister: Caller) -> None:
    assert quote(cursor_of(lister), safe="") == cursor_of(lister)


def test_a_tampered_cursor_is_invalid(lister: Caller) -> None:
    """Whichever character was changed."""
    cursor = cursor_of(lister)
    for at in range(len(cursor)):
        other = "A" if cursor[at] != "A" else "Q"
        refused(lister.get("/runs", cursor=cursor[:at] + other + cursor[at + 1 :]), 400, "invalid_cursor")


@pytest.mark.parametrize("cursor", ["none", "a", "%", "é", "\0", "x" * 5000, base64.urlsafe_b64encode(b"{}").decode()])
def test_a_cursor_that_was_never_issued_is_invalid(lister: Caller, cursor: str) -> None:
    refused(lister.get("/runs", cursor=cursor), 400, "invalid_cursor")


def test_a_cut_or_lengthened_cursor_is_invalid(lister: Caller) -> None:
    cursor = cursor_of(lister)
    for other in (cursor[:-1], cursor + "A", cursor + "=", cursor[1:], cursor * 2, f" {cursor}"):
        refused(lister.get("/runs", cursor=other), 400, "invalid_cursor")


def test_a_cursor_of_another_key_is_invalid(lister: Caller, resident: Caller) -> None:
    refused(resident.get("/runs", cursor=cursor_of(lister)), 400, "invalid_cursor")


def test_a_cursor_of_another_route_is_invalid(lister: Caller, flows: dict[str, str]) -> None:
    refused(lister.get("/workflows", cursor=cursor_of(lister)), 400, "invalid_cursor")
    other = lister.get("/workflows?limit=1").json()["next_cursor"]
    refused(lister.get("/runs", cursor=other), 400, "invalid_cursor")


def test_a_limit_is_judged_before_the_filters(lister: Caller) -> None:
    invalid(lister.get("/runs", limit=0, status="done"), "limit")


def test_a_key_without_runs_lists_none(new_caller: NewCaller) -> None:
    assert new_caller().get("/runs").json() == {"items": [], "next_cursor": None}
