"""Callers that end their sending side after a request get its answer. (contract 6.8)"""

import socket
from typing import Any

from tests.support.client import Caller
from tests.support.service import Service
from tests.support.wire import Answer, Wire, request

STARTS = 40


def answers(caller: Caller, *requests: bytes) -> list[Answer]:
    """Sends requests and the end of sending, and returns the answers."""
    with Wire(caller.address) as wire:
        wire.send(b"".join(requests))
        wire.socket.shutdown(socket.SHUT_WR)
        found = [wire.answer() for _ in requests]
        assert wire.closed()
    return found


def start(caller: Caller, workflow_id: str, key: str) -> bytes:
    headers = (*caller.credential_headers, ("Idempotency-Key", key), ("Content-Length", "2"))
    return request("POST", f"/workflows/{workflow_id}/runs", *headers, body=b"{}")


def test_every_start_is_answered_though_its_caller_sends_no_more(service: Service, flows: dict[str, str]) -> None:
    caller = service.new_caller()
    started = [answers(caller, start(caller, flows["Park"], f"half-{number}"))[0] for number in range(STARTS)]
    assert {answer.status for answer in started} == {201}
    assert caller.get("/me").json()["active_runs"] == STARTS


def test_each_of_several_requests_is_answered(resident: Caller) -> None:
    get = request("GET", "/me", *resident.credential_headers)
    assert [answer.status for answer in answers(resident, get, get, get)] == [200] * 3


def test_a_download_is_sent_whole(resident: Caller, tree_run: dict[str, Any]) -> None:
    path = f"/runs/{tree_run['run_id']}/outputs.zip"
    [half] = answers(resident, request("GET", path, *resident.credential_headers))
    whole = resident.get(path)
    assert (half.status, len(half.body)) == (200, len(whole.body))


def test_a_call_that_waits_is_answered_with_what_there_is(resident: Caller, parked_run: dict[str, Any]) -> None:
    path = f"/runs/{parked_run['run_id']}?wait_seconds=30"
    tag = resident.get(f"/runs/{parked_run['run_id']}").headers["ETag"]
    [half] = answers(resident, request("GET", path, ("If-None-Match", tag), *resident.credential_headers))
    assert half.status == 304


def test_a_body_that_does_not_come_to_its_end_starts_nothing(service: Service, flows: dict[str, str]) -> None:
    caller = service.new_caller()
    whole = start(caller, flows["Park"], "cut").replace(b"Content-Length: 2", b"Content-Length: 3")
    with Wire(caller.address) as wire:
        wire.send(whole)
        wire.socket.shutdown(socket.SHUT_WR)
        assert wire.closed()
    assert caller.get("/me").json()["active_runs"] == 0
