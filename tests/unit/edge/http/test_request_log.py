"""The log line of each request."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edge.http.request_log import RequestLog
from telemetry.log_output import set_trace_ids
from telemetry.requests import REQUEST
from tests.support.log_lines import WrittenLog, written_log

RUN_ID = "run_01m84tzsm1zkg5pk8mckr53hdt"


@pytest.fixture
def log(tmp_path: Path) -> Iterator[WrittenLog]:
    with written_log(tmp_path / "log", REQUEST) as log:
        yield log


def request(*outcome: object, method: str = "GET") -> Any:
    return SimpleNamespace(
        method=method, request_id="req_1", outcome=outcome or None, began=0.0, content=SimpleNamespace(total_bytes=7)
    )


def shown(log: WrittenLog) -> list[dict[str, Any]]:
    """The lines without what differs from call to call."""
    return [{name: line[name] for name in line if name not in {"timestamp", "pid", "ms"}} for line in log.lines()]


def test_lines_that_are_made_of_parts_say_the_same_as_any(log: WrittenLog) -> None:
    requests = RequestLog()
    one = request("/api/v1/runs/{run_id}", "ak_0123456789ab", "", RUN_ID, 0.0, "192.0.2.1")
    for _ in range(3):
        requests.add(one, 200, 512, "")
    log.output.flush()
    first, second, third = shown(log)
    assert first == second == third
    assert first == {
        "level": "info",
        "part": "edge",
        "logger": "edge.requests",
        "event": "request",
        "message": "GET /api/v1/runs/{run_id} 200",
        "method": "GET",
        "route": "/api/v1/runs/{run_id}",
        "status": 200,
        "request_id": "req_1",
        "key_id": "ak_0123456789ab",
        "run_id": RUN_ID,
        "bytes_in": 7,
        "bytes_out": 512,
    }


def test_an_unknown_path_and_method_are_named_other(log: WrittenLog) -> None:
    requests = RequestLog()
    for _ in range(2):
        requests.add(request("", "", "not_found", "", 0.0, "", method="PLANTED"), 404, 1, "")
        requests.add(request(), 0, 0, "client_gone")
    assert [(line["method"], line["route"], line["status"], line["reason"]) for line in shown(log)] == [
        ("other", "other", 404, "not_found"),
        ("GET", "other", 0, "client_gone"),
    ] * 2


def test_health_checks_are_sampled(log: WrittenLog) -> None:
    requests = RequestLog()
    check = request("/api/v1/health", "", "", "", 0.0, "")
    for status in (*[200] * 150, 502, 200):
        requests.add(check, status, 1, "")
    assert [(line["status"], line["checks"]) for line in shown(log)] == [(200, 1), (200, 100), (502, 50), (200, 1)]


def test_a_change_of_the_log_holds_at_once(log: WrittenLog) -> None:
    requests = RequestLog()
    one = request("/api/v1/me", "", "unauthorized", "", 0.0, "192.0.2.1")
    requests.add(one, 401, 1, "")
    set_trace_ids(lambda: "0af7651916cd43dd8448eb211c80319c")
    requests.add(one, 401, 1, "")
    set_trace_ids(None)
    requests.add(one, 401, 1, "")
    assert [line.get("trace_id") for line in shown(log)] == [None, "0af7651916cd43dd8448eb211c80319c", None]
    assert "192.0.2.1" not in log.text()
    log.output.set_format("text", colour=False)
    log.output.version += 1
    requests.add(one, 401, 1, "")
    assert "GET /api/v1/me 401 unauthorized  method=GET" in log.text().splitlines()[-1]


def test_addresses_are_shown_at_debug_alone(tmp_path: Path) -> None:
    with written_log(tmp_path / "log", REQUEST, level="DEBUG") as log:
        RequestLog().add(request("/api/v1/me", "", "", "", 0.0, "192.0.2.1:7"), 200, 1, "")
        assert [line["address"] for line in log.lines()] == ["192.0.2.1"]
