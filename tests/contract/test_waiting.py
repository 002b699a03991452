"""Answers that wait, and events as a stream. (contract 14.16, 17.14 to 17.18)"""

import http.client
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.contract.conftest import NewCaller
from tests.support.admin import Admin
from tests.support.client import Caller
from tests.support.expect import invalid, refused
from tests.support.service import Service
from tests.support.wire import BASE, Answer
from workflow_api.v1 import keys_pb2

STREAM = {"Accept": "text/event-stream"}

Meanwhile = Callable[[Callable[[], Answer]], "Future[Answer]"]


@pytest.fixture
def meanwhile() -> Iterator[Meanwhile]:
    """Makes a call while the test goes on; what is right must not depend on which comes first."""
    with ThreadPoolExecutor(8) as pool:
        yield pool.submit


@contextmanager
def streaming(caller: Caller, run_id: str, query: str = "", **headers: str) -> Iterator[http.client.HTTPResponse]:
    connection = http.client.HTTPConnection(*caller.address, timeout=120)
    with closing(connection):
        connection.request("GET", f"{BASE}/runs/{run_id}/events{query}", headers=caller.credentials | STREAM | headers)
        yield connection.getresponse()


def messages(stream: http.client.HTTPResponse) -> Iterator[dict[str, str]]:
    """The messages of a stream as they come, without comments and without the time to come back."""
    message: dict[str, str] = {}
    for line in stream:
        name, found, value = line.decode().rstrip("\n").partition(": ")
        if found and name in {"id", "event", "data"}:
            message[name] = value
        elif not line.strip() and message:
            yield message
            message = {}


def position(message: dict[str, str]) -> tuple[str, int]:
    segment_id, _, seq = message["id"].partition(":")
    return segment_id, int(seq)


def test_a_held_run_is_answered_when_it_changes(caller: Caller, flows: dict[str, str], meanwhile: Meanwhile) -> None:
    run_id = caller.parked(flows["Park"])["run_id"]
    held = meanwhile(lambda: caller.get(f"/runs/{run_id}", wait_seconds=30))
    caller.post(f"/runs/{run_id}/cancel")
    answer = held.result()
    assert answer.json()["status"] == "cancelled"
    assert answer.body == caller.get(f"/runs/{run_id}").body


def test_a_held_run_is_answered_as_it_is_when_the_time_is_over(caller: Caller, flows: dict[str, str]) -> None:
    run_id = caller.parked(flows["Park"])["run_id"]
    plain = caller.get(f"/runs/{run_id}")
    began = time.monotonic()
    held = caller.get(f"/runs/{run_id}", wait_seconds=1)
    assert time.monotonic() - began >= 1
    assert (held.status, held.body, held.headers["ETag"]) == (200, plain.body, plain.headers["ETag"])
    unchanged = caller.get(f"/runs/{run_id}", headers={"If-None-Match": plain.headers["ETag"]}, wait_seconds=1)
    assert (unchanged.status, unchanged.body) == (304, b"")


def test_a_run_that_has_finished_or_is_not_what_the_caller_has_is_not_held(
    caller: Caller, echo_run: dict[str, Any], resident: Caller, flows: dict[str, str]
) -> None:
    # The 30 seconds would be more than the test may take, with so many of them.
    for _ in range(10):
        assert resident.get(f"/runs/{echo_run['run_id']}", wait_seconds=30).json() == echo_run
    run_id = caller.parked(flows["Park"])["run_id"]
    for _ in range(10):
        answer = caller.get(f"/runs/{run_id}", headers={"If-None-Match": '"other"'}, wait_seconds=30)
        assert answer.json()["status"] == "waiting_for_approval"


def test_held_events_are_answered_with_the_next_one(
    caller: Caller, flows: dict[str, str], meanwhile: Meanwhile
) -> None:
    run_id = caller.started(flows["Sleep"])
    caller.wait_for_event(run_id, "step.started")
    last = caller.events(run_id, limit=500)["next_after_seq"]
    held = meanwhile(lambda: caller.get(f"/runs/{run_id}/events", after_seq=last, wait_seconds=30))
    caller.post(f"/runs/{run_id}/cancel")
    page = held.result().json()
    assert page["events"][0]["seq"] == last + 1


def test_held_events_without_a_segment_wait_for_the_next_one(
    caller: Caller, flows: dict[str, str], meanwhile: Meanwhile, admin: Admin
) -> None:
    run_id = caller.parked(flows["Gate"])["run_id"]
    page = caller.events(run_id)
    first, last = page["segment_id"], page["next_after_seq"]
    # Nothing more comes in a segment that has ended.
    assert caller.events(run_id, segment=first, after_seq=last, wait_seconds=30)["events"] == []
    held = meanwhile(lambda: caller.get(f"/runs/{run_id}/events", after_seq=last, wait_seconds=30))
    caller.post(f"/runs/{run_id}/cancel")
    assert len(held.result().json()["segments"]) == 2


def test_events_held_across_an_approval_answer_the_new_segment_from_its_beginning(
    caller: Caller, flows: dict[str, str], meanwhile: Meanwhile, admin: Admin
) -> None:
    run_id = caller.parked(flows["Gate"])["run_id"]
    page = caller.events(run_id)
    held = meanwhile(lambda: caller.get(f"/runs/{run_id}/events", after_seq=page["next_after_seq"], wait_seconds=30))
    (approval,) = caller.get(f"/runs/{run_id}/approvals").json()["items"]
    admin.decide(approval["approval_id"], approve=True)
    answer = held.result().json()
    assert answer["segment_id"] == answer["segments"][1]["segment_id"] != page["segment_id"]
    assert (answer["events"], answer["next_after_seq"]) == ([], 0)
    # A caller that forgets the segment goes on with what it was answered, and misses nothing.
    caller.wait(run_id)
    assert [event["seq"] for event in caller.events(run_id, after_seq=0)["events"]][:1] == [1]


@pytest.mark.parametrize("path", ["/runs/{}", "/runs/{}/events"])
@pytest.mark.parametrize("given", ["-1", "31", "1.5", "x", ""])
def test_wait_seconds_outside_its_bounds_is_invalid(
    resident: Caller, echo_run: dict[str, Any], path: str, given: str
) -> None:
    invalid(resident.get(f"{path.format(echo_run['run_id'])}?wait_seconds={given}"), "wait_seconds")


def test_waiting_needs_a_run_within_reach(resident: Caller, caller: Caller, echo_run: dict[str, Any]) -> None:
    for path in (f"/runs/{echo_run['run_id']}", f"/runs/{echo_run['run_id']}/events"):
        refused(caller.get(path, wait_seconds=30), 404, "run_not_found")
    refused(caller.get(f"/runs/{echo_run['run_id']}/events", headers=STREAM), 404, "run_not_found")


def test_a_held_call_counts_once(new_caller: NewCaller, flows: dict[str, str]) -> None:
    caller = new_caller(rate_limit_rpm=1_000)
    run_id = caller.parked(flows["Park"])["run_id"]
    for _ in range(2):
        before = int(caller.get("/me").headers["RateLimit-Remaining"])
        caller.get(f"/runs/{run_id}", wait_seconds=1)
        after = int(caller.get("/me").headers["RateLimit-Remaining"])
        if before > after:  # else a minute has passed
            assert before - after == 2


def test_a_revoked_key_is_held_no_longer(
    caller: Caller, flows: dict[str, str], admin: Admin, meanwhile: Meanwhile
) -> None:
    run_id = caller.parked(flows["Park"])["run_id"]
    with streaming(caller, run_id) as stream:
        assert position(next(messages(stream)))[1] == 1
        held = meanwhile(lambda: caller.get(f"/runs/{run_id}", wait_seconds=30))
        admin.keys.RevokeKey(keys_pb2.RevokeKeyRequest(key_id=caller.key_id))
        refused(held.result(), 401, "unauthorized")
        assert "end" not in [message.get("event") for message in messages(stream)]


def test_a_stream_has_every_event_of_every_segment_and_its_end(
    caller: Caller, flows: dict[str, str], admin: Admin
) -> None:
    run_id = caller.parked(flows["Gate"])["run_id"]
    with streaming(caller, run_id) as stream:
        assert (stream.status, stream.headers["Content-Type"]) == (200, "text/event-stream")
        assert stream.headers["Cache-Control"] == "no-store"
        received = messages(stream)
        first = [next(received) for _ in caller.events(run_id)["events"]]
        [approval] = caller.get(f"/runs/{run_id}/approvals").json()["items"]
        admin.decide(approval["approval_id"], approve=True)
        *rest, end = received
    assert end["event"] == "end"
    assert json.loads(end["data"]) == {"run_id": run_id, "status": "completed"}
    listed = [
        ((segment["segment_id"], event["seq"]), event)
        for segment in caller.events(run_id)["segments"]
        for event in caller.events(run_id, segment=segment["segment_id"])["events"]
    ]
    assert [(position(message), json.loads(message["data"])) for message in [*first, *rest]] == listed


def test_a_stream_goes_on_after_the_last_event_id(resident: Caller, echo_run: dict[str, Any]) -> None:
    run_id = echo_run["run_id"]
    with streaming(resident, run_id) as stream:
        whole = list(messages(stream))
    for index in (0, 3, len(whole) - 2):
        with streaming(resident, run_id, **{"Last-Event-ID": whole[index]["id"]}) as stream:
            assert list(messages(stream)) == whole[index + 1 :]
    segment_id, seq = position(whole[2])
    with streaming(resident, run_id, f"?segment={segment_id}&after_seq={seq}") as stream:
        assert list(messages(stream)) == whole[3:]


def test_a_last_event_id_that_no_event_has_is_refused(resident: Caller, echo_run: dict[str, Any]) -> None:
    path = f"/runs/{echo_run['run_id']}/events"
    for given in ("1", "seg_1:", "seg_1:-1", "seg 1:1"):
        invalid(resident.get(path, headers={**STREAM, "Last-Event-ID": given}), "Last-Event-ID")
    answer = resident.get(path, headers={**STREAM, "Last-Event-ID": "seg_none:1"})
    refused(answer, 404, "segment_not_found")


@pytest.mark.parametrize("accept", ["*/*", "application/json", "text/*", "text/event-stream;q=0"])
def test_other_media_types_get_the_page(resident: Caller, echo_run: dict[str, Any], accept: str) -> None:
    path = f"/runs/{echo_run['run_id']}/events"
    assert resident.get(path, headers={"Accept": accept}).body == resident.get(path).body


def test_a_stop_answers_who_waits_and_ends_streams_cleanly(tmp_path: Path) -> None:
    service = Service(tmp_path)
    service.start()
    try:
        caller = service.new_caller()
        run_id = caller.parked(service.admin.apply_test_workflows()["Park"])["run_id"]
        with streaming(caller, run_id) as stream:
            received = messages(stream)
            listed = caller.events(run_id)["events"]
            assert [position(next(received))[1] for _ in listed] == [event["seq"] for event in listed]
            with closing(http.client.HTTPConnection(*caller.address, timeout=120)) as held:
                held.request("GET", f"{BASE}/runs/{run_id}?wait_seconds=30", headers=caller.credentials)
                service.stop()
                assert json.load(held.getresponse())["status"] == "waiting_for_approval"
            # A cut connection would raise.
            assert list(received) == []
    finally:
        service.stop()
