"""Log lines of requests and runs, in processes as an operator starts them."""

import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contract.versions import RELEASE
from tests.support.client import Caller
from tests.support.deployment import Deployment
from tests.support.log_lines import lines_of
from tests.support.part import Part
from tests.support.poll import until
from tests.support.postgresql import Postgresql
from tests.support.service import Service
from tests.support.wire import BASE, exchange, request
from workflow_api.v1.keys_pb2 import RevokeKeyRequest


@pytest.fixture
def deployment(tmp_path: Path, postgresql_server: Postgresql) -> Iterator[Deployment]:
    with postgresql_server.database() as database:
        deployment = Deployment(tmp_path, database, LOG_LEVEL="info")
        yield deployment
        deployment.stop()


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    config = tmp_path / "settings.toml"
    config.write_text('log_format = "json"\n')
    variables = {"WORKFLOW_API_LOG_LEVEL": "info"}
    service = Service(tmp_path, "--config", str(config), variables=variables)
    service.start()
    yield service
    service.stop()


def lines(part: Part, event: str, **fields: object) -> list[dict[str, Any]]:
    """The lines of an event with these values, so far."""
    whole = part.log().rpartition("\n")[0]
    return [line for line in lines_of(whole) if line["event"] == event and fields.items() <= line.items()]


def test_edge_backend_and_worker_are_joined_by_request_and_run(deployment: Deployment) -> None:
    backend, worker = deployment.backend(), deployment.worker()
    edge, admin = deployment.edge(backend), deployment.admin(backend)
    caller = deployment.caller(edge, admin)
    flows = admin.apply_test_workflows()
    asked = {"X-Request-Id": "order-4711", "Idempotency-Key": "once"}

    started = caller.call("POST", f"/workflows/{flows['Echo']}/runs", headers=asked, body=b"{}")
    run_id = started.json()["run_id"]
    assert caller.wait(run_id)["status"] == "completed"

    (answered,) = until(lambda: lines(edge, "request", request_id="order-4711"), "the line of the request")
    assert (answered["part"], answered["status"], answered["run_id"]) == ("edge", 201, run_id)
    assert answered["route"] == f"{BASE}/workflows/{{workflow_id}}/runs"
    assert (answered["key_id"], answered["bytes_in"]) == (caller.key_id, 2)
    (called,) = until(lambda: lines(backend, "call", request_id="order-4711"), "the line of the call")
    assert (called["part"], called["rpc"], called["code"]) == ("backend", "RunsService/StartRun", "OK")
    (run,) = until(lambda: lines(backend, "run", request_id="order-4711"), "the line of the run")
    assert (run["run_id"], run["to"], run["workflow_id"]) == (run_id, "queued", flows["Echo"])
    changes = until(lambda: found if len(found := lines(worker, "run", run_id=run_id)) == 2 else [], "both changes")
    assert [(line["part"], line["from"], line["to"], line["key_id"]) for line in changes] == [
        ("worker", "queued", "running", caller.key_id),
        ("worker", "running", "completed", caller.key_id),
    ]
    # Reads leave a line at the edge alone.
    assert lines(edge, "request", route=f"{BASE}/runs/{{run_id}}", run_id=run_id)
    assert not lines(backend, "call", rpc="RunsService/GetRun")


def test_each_process_says_where_it_serves_and_that_it_stops(deployment: Deployment) -> None:
    backend, worker = deployment.backend(), deployment.worker()
    edge, console = deployment.edge(backend), deployment.console(backend)
    own = {
        backend: {"part": "backend", "grpc": backend.ready["grpc"]},
        worker: {"part": "worker"},
        edge: {"part": "edge", "base_address": edge.ready["base_address"]},
        console: {"part": "console", "console": console.ready["console"]},
    }
    for part, fields in own.items():
        (serving,) = until(lambda part=part: lines(part, "process"), "the line that it serves")  # type: ignore[misc]
        assert fields.items() <= serving.items()
        assert (serving["to"], serving["release"], serving["pid"]) == ("serving", RELEASE, part.pid)
        addresses = {"base_address", "console", "grpc"} & set(serving)
        assert addresses == set(fields) - {"part"}
        part.stop()
        assert [line["to"] for line in lines(part, "process")] == ["serving", "stopping"]


def test_one_command_has_a_line_when_it_serves_and_when_it_stops(service: Service) -> None:
    (serving,) = until(lambda: lines(service, "process", to="serving"), "the line that it serves")
    assert (serving["part"], serving["pid"]) == ("serve", service.pid)
    service.stop()
    assert len(lines(service, "process", to="stopping")) == 1


def test_an_outage_of_the_database_and_its_end_have_a_line_each_in_every_process(
    deployment: Deployment, postgresql_server: Postgresql
) -> None:
    backend, worker = deployment.backend(), deployment.worker()
    edge, admin = deployment.edge(backend), deployment.admin(backend)
    caller = deployment.caller(edge, admin)

    def warnings(part: Part) -> list[str]:
        return [line["message"] for line in lines(part, "message") if line["level"] in {"warning", "error"}]

    with postgresql_server.away(deployment.database):
        for part in (backend, worker):
            until(lambda part=part: warnings(part), "the outage")  # type: ignore[misc]  # of this round
        assert caller.get("/workflows", headers={"X-Request-Id": "away-1"}).status == 502
        (refused,) = until(lambda: lines(backend, "message", request_id="away-1"), "the reason of the refusal")
    for part in (backend, worker):
        until(lambda part=part: "The database answers again" in warnings(part), "its end")  # type: ignore[misc]

    away = "is not currently accepting connections"
    assert refused["message"].startswith("workflow_api.v1.WorkflowsService.ListWorkflows failed: The database cannot ")
    assert refused["message"].endswith(f"{away}.")
    for part in (backend, worker):
        outage, *_, end = (said for said in warnings(part) if said != refused["message"])
        assert outage.startswith("The database is unavailable: ")
        assert away in outage or "terminating connection" in outage
        assert end == "The database answers again"
        assert not [line for line in lines(part, "message") if "exception" in line or line["logger"] == "dbos"]


def test_every_refusal_and_every_caller_that_leaves_has_a_line(service: Service) -> None:
    caller = service.new_caller()
    flows = service.admin.apply_test_workflows()
    parked = caller.parked(flows["Park"])["run_id"]
    strangers = Caller(service.address, "", "ak_000000000000.x", "ake_x")
    assert strangers.get("/me", headers={"X-Request-Id": "refused-1"}).status == 401
    assert caller.get("/nowhere/secret-path", headers={"X-Request-Id": "refused-2"}).status == 404
    large = {"X-Request-Id": "refused-3", "Idempotency-Key": "large"}
    body = b'"' + b"x" * 1_100_000 + b'"'
    assert caller.call("POST", f"/workflows/{flows['Echo']}/runs", headers=large, body=body).status == 413
    assert (
        exchange(service.address, request("GET", "/me", ("X-Request-Id", "refused-4")).replace(b": ", b" : ")).status
        == 400
    )
    gone = request("GET", f"/runs/{parked}?wait_seconds=30", *caller.credential_headers, ("X-Request-Id", "gone-1"))
    with socket.create_connection(service.address) as connection:
        connection.sendall(gone)
        until(lambda: caller.get(f"/runs/{parked}").status == 200, "the other call to be held")
        # A reset: who only sends no more is answered.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def line(request_id: str) -> dict[str, Any]:
        (one,) = until(lambda: lines(service, "request", request_id=request_id), f"the line of {request_id}")
        return one

    assert [(line(f"refused-{n}")["status"], line(f"refused-{n}")["reason"]) for n in (1, 2, 3)] == [
        (401, "unauthorized"),
        (404, "not_found"),
        (413, "payload_too_large"),
    ]
    assert line("refused-2")["route"] == "other"
    until(lambda: lines(service, "request", status=400, reason="invalid_request"), "the line of the malformed one")
    assert (line("gone-1")["status"], line("gone-1")["reason"]) == (0, "client_gone")
    assert "secret-path" not in service.log()
    assert {each["pid"] for each in lines(service, "request")} == {service.pid}


def test_a_call_with_a_revoked_key_is_attributed_in_the_log_alone(deployment: Deployment) -> None:
    backend = deployment.backend()
    edge, admin = deployment.edge(backend), deployment.admin(backend)
    caller = deployment.caller(edge, admin)
    admin.keys.RevokeKey(RevokeKeyRequest(key_id=caller.key_id))
    until(lambda: caller.get("/me").status == 401, "the edge to know of it")

    refused = caller.get("/me", headers={"X-Request-Id": "revoked-1"})
    (line,) = until(lambda: lines(edge, "request", request_id="revoked-1"), "the line of the request")
    assert (line["status"], line["reason"]) == (401, "unauthorized")
    assert (line["key_id"], line["cause"]) == (caller.key_id, "revoked")
    assert "revoked" not in refused.body.decode().replace("revoked-1", "")
    (call,) = until(lambda: lines(backend, "call", rpc="KeysService/RevokeKey"), "the line of the call")
    assert call["subject_key_id"] == caller.key_id


def test_a_process_follows_the_settings_file_without_a_restart(service: Service, tmp_path: Path) -> None:
    (tmp_path / "settings.toml").write_text('log_format = "text"\n')
    until(lambda: service.log().count("The log has changed: level info, format text") == 1, "the process to log text")
    service.new_caller().get("/me", headers={"X-Request-Id": "as-text-1"})
    until(lambda: "GET /api/v1/me 200" in service.log().partition("as-text-1")[0].splitlines()[-1], "a line of text")
