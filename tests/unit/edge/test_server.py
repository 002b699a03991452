import re
from collections.abc import Callable
from operator import itemgetter

import pytest

from edge.http.response import JSON
from tests.support.poll import wait_until
from tests.unit.edge.conftest import Service
from tests.unit.edge.services import (
    CALLER,
    CREDENTIALS,
    DEPLOYMENT,
    EXTERNAL_ID,
    KEY_ID,
    RUNS,
    SECRET,
    MemoryChannel,
    mirror,
    mirrored_key,
    refusing,
)
from tests.unit.edge.wire import Reply, Wire
from workflow_api.v1.options_pb2 import SCOPE_RUNS_READ, SCOPE_WORKFLOWS_READ
from workflow_api.v1.runs_pb2 import (
    RUN_STATUS_RUNNING,
    CancelRunResponse,
    ListRunsResponse,
    Run,
    RunSummary,
    StartRunResponse,
)

Start = Callable[..., Service]
BODY_ROUTES = [
    ("POST", "/api/v1/workflows/wf_1/runs"),
    ("POST", "/api/v1/runs/run_1/cancel"),
    ("DELETE", "/api/v1/runs/run_1/data"),
]
NOON = 1_790_000_000_000 // 86_400_000 * 86_400_000 + 12 * 3_600_000


def run_started(*, replayed: bool) -> StartRunResponse:
    return StartRunResponse(run=Run(summary=RunSummary(run_id="run_7")), replayed=replayed)


@pytest.fixture(name="service", scope="module")
def _service(start: Start) -> Service:
    channel = MemoryChannel()
    channel.answers[RUNS + "ListRuns"] = lambda _: ListRunsResponse()
    channel.answers[RUNS + "CancelRun"] = lambda _: CancelRunResponse(run_id="run_1", status=RUN_STATUS_RUNNING)
    return start(channel)


def closed_service(start: Start, **flags: bool) -> Service:
    return start(MemoryChannel(mirror(mirrored_key(), **flags)))


def test_health_needs_no_key(service: Service) -> None:
    reply = service.call("GET", "/api/v1/health")
    assert reply.json == {"status": "ok", "deployment_id": "dep_1", "api_version": "2026-09-24"}


def test_every_answer_carries_the_common_headers(service: Service) -> None:
    for reply in (service.call("GET", "/api/v1/health"), service.call("GET", "/api/v1/nowhere")):
        assert reply.headers["Cache-Control"] == "no-store"
        assert reply.headers["X-Content-Type-Options"] == "nosniff"
        assert reply.headers["Content-Type"] == "application/json"
        assert re.fullmatch("[0-9a-f]{32}", reply.headers["X-Request-Id"])
        assert "Access-Control-Allow-Origin" not in reply.headers


def test_a_callers_request_id_is_echoed_in_header_and_envelope(service: Service) -> None:
    reply = service.call("GET", "/api/v1/me", "X-Request-Id: my:id-1")
    assert reply.headers["X-Request-Id"] == reply.json["error"]["request_id"] == "my:id-1"


@pytest.mark.parametrize("header", ["X-Request-Id: a b", "X-Request-Id: é", "X-Request-Id: a\r\nX-Request-Id: a"])
def test_a_request_id_that_does_not_fit_is_replaced(service: Service, header: str) -> None:
    assert re.fullmatch("[0-9a-f]{32}", service.call("GET", "/api/v1/health", header).headers["X-Request-Id"])


@pytest.mark.parametrize(
    "path",
    ["", "/", "/me/", "/ME", "/nowhere", "/runs/", "/runs//steps", "/runs/a%2Fsteps/x", "//me", "/me;x", "/h%65alth"],
)
def test_an_unknown_path_is_not_found_without_a_key(service: Service, path: str) -> None:
    reply = service.call("GET", "/api/v1" + path)
    assert (reply.status, reply.code) == (404, "not_found")


def test_a_slash_in_an_id_makes_no_segment(service: Service) -> None:
    assert service.call("GET", "/api/v1/runs/a%2Fsteps").code == "unauthorized"


@pytest.mark.parametrize("path", ["/", "/nowhere", "/api", "/api/v1x", "//api/v1/me", "/docs/", "/openapi.json/"])
def test_nothing_else_is_served_outside_the_base(service: Service, path: str) -> None:
    assert service.call("GET", path).code == "not_found"


@pytest.mark.parametrize(("path", "media_type"), [("/openapi.json", JSON), ("/docs", "text/html; charset=utf-8")])
def test_the_description_and_the_reference_are_public(service: Service, path: str, media_type: str) -> None:
    reply = service.call("GET", path)
    assert (reply.status, reply.headers["Content-Type"]) == (200, media_type)
    head = service.call("HEAD", path)
    assert (head.body, head.headers["Content-Length"]) == (b"", str(len(reply.body)))
    assert service.call("POST", path, body=b"x").headers["Allow"] == "GET, HEAD"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "TRACE", "BREW"])
def test_a_wrong_method_names_the_allowed_ones_without_a_key(service: Service, method: str) -> None:
    reply = service.call(method, "/api/v1/me")
    assert (reply.status, reply.headers["Allow"]) == (405, "GET")
    assert reply.body == b"" if method == "HEAD" else reply.code == "method_not_allowed"


def test_absolute_form_is_understood(service: Service) -> None:
    assert service.call("GET", "http://test/api/v1/health").status == 200


def test_a_call_with_both_credentials_reaches_the_service(service: Service) -> None:
    reply = service.call("GET", "/api/v1/me", *CREDENTIALS, "X-Request-Id: one")
    assert reply.json["key_id"] == KEY_ID
    # A batch of usage records may have left since.
    (metadata,) = (metadata for rpc, _, metadata in service.channel.calls if rpc == CALLER + "GetMe")
    assert metadata == {"workflow-api-key-id": KEY_ID, "workflow-api-request-id": "one"}


WRONG = {
    "none": (),
    "only the key": CREDENTIALS[:1],
    "only the external id": CREDENTIALS[1:],
    "basic": ("Authorization: Basic YTpi", CREDENTIALS[1]),
    "no scheme": (f"Authorization: {KEY_ID}.{SECRET}", CREDENTIALS[1]),
    "unknown key id": (f"Authorization: Bearer ak_ffffffffffff.{SECRET}", CREDENTIALS[1]),
    "wrong secret": (f"Authorization: Bearer {KEY_ID}.{SECRET[:-1]}x", CREDENTIALS[1]),
    "short secret": (f"Authorization: Bearer {KEY_ID}.short", CREDENTIALS[1]),
    "wrong external id": (CREDENTIALS[0], f"X-Service-Key-External-Id: {EXTERNAL_ID[:-1]}f"),
    "malformed external id": (CREDENTIALS[0], "X-Service-Key-External-Id: !"),
    "repeated key": (CREDENTIALS[0], *CREDENTIALS),
    "repeated external id": (*CREDENTIALS, CREDENTIALS[1]),
    "bytes beyond ascii": (CREDENTIALS[0] + "\xe9", CREDENTIALS[1]),
    "cookie": (f"Cookie: session={SECRET}",),
    "two values": (CREDENTIALS[0] + ", Basic YTpi", CREDENTIALS[1]),
    "external id as the key": (f"Authorization: Bearer {EXTERNAL_ID}", CREDENTIALS[1]),
}


@pytest.mark.parametrize("headers", WRONG.values(), ids=WRONG)
def test_every_wrong_credential_gets_one_and_the_same_401(service: Service, headers: tuple[str, ...]) -> None:
    reply = service.call("GET", "/api/v1/runs", *headers, "X-Request-Id: x")
    missing = service.call("GET", "/api/v1/runs", "X-Request-Id: x")
    assert (reply.status, reply.headers["WWW-Authenticate"]) == (401, "Bearer")
    assert reply.body == missing.body


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        ({"governed": False}, "not_governed"),
        ({"api_enabled": False}, "not_enabled"),
        ({"any_key_ever": False}, "not_enabled"),
    ],
)
def test_503_is_decided_before_the_credentials(start: Start, flags: dict[str, bool], reason: str) -> None:
    reply = closed_service(start, **flags).call("GET", "/api/v1/me")
    assert (reply.status, reply.code, reply.headers["Retry-After"]) == (503, "deployment_updating", "60")
    assert reply.json["error"]["details"] == {"reason": reason}


def test_an_edge_without_a_copy_of_the_keys_answers_503_and_serves_as_soon_as_it_has_one(start: Start) -> None:
    channel = MemoryChannel()
    channel.reachable = False
    service = start(channel, mirror_first_seconds=0.0, mirror_retry_seconds=0.05, mirror_poll_seconds=0.05)
    assert service.call("GET", "/api/v1/me", *CREDENTIALS).json["error"]["details"] == {
        "reason": "keys_table_unreachable"
    }
    channel.reachable = True
    wait_until(lambda: service.call("GET", "/api/v1/me", *CREDENTIALS).status == 200)


def test_a_revoked_key_stops_as_soon_as_the_mirror_says_so(start: Start) -> None:
    service = start()
    assert service.call("GET", "/api/v1/me", *CREDENTIALS).status == 200
    service.thread.run(service.channel.change_keys(mirror(mirrored_key(revoked=True), revision=2)))
    wait_until(lambda: service.call("GET", "/api/v1/me", *CREDENTIALS).status == 401)


def test_health_is_disabled_where_the_flags_say_so_and_never_5xx(start: Start) -> None:
    service = closed_service(start, governed=False)
    service.channel.answers[DEPLOYMENT + "GetHealth"] = refusing("runtime_unreachable")
    assert service.call("GET", "/api/v1/health").json == {
        "status": "disabled",
        "deployment_id": "dep_1",
        "api_version": "2026-09-24",
    }


def test_health_names_the_deployment_of_the_settings_until_the_backend_is_reached(start: Start) -> None:
    channel = MemoryChannel()
    channel.reachable = False
    service = start(channel, deployment_id="plant-7", mirror_first_seconds=0.0, mirror_retry_seconds=0.05)
    service.channel.answers[DEPLOYMENT + "GetHealth"] = refusing("internal")

    def deployment() -> str:
        return str(service.call("GET", "/api/v1/health").json["deployment_id"])

    assert deployment() == "plant-7"
    channel.reachable = True
    wait_until(lambda: deployment() == "dep_1")


def test_health_falls_back_to_what_the_mirror_last_said(start: Start) -> None:
    service = start()
    service.channel.answers[DEPLOYMENT + "GetHealth"] = refusing("internal")
    assert service.call("GET", "/api/v1/health").json["status"] == "ok"


def test_a_source_outside_the_allow_list_is_forbidden_before_the_hour(start: Start) -> None:
    key = mirrored_key(source_allow_list=["203.0.113.0/24"], allowed_hours={"start_hour": 0, "end_hour": 1})
    service = start(MemoryChannel(mirror(key)), client_address="load_balancer")
    service.clock.now_ms = NOON
    headers = (*CREDENTIALS, "X-Forwarded-For: 203.0.113.9, 198.51.100.1")
    assert service.call("GET", "/api/v1/me", *headers).code == "forbidden"
    headers = (*CREDENTIALS, "X-Forwarded-For: 198.51.100.1, 203.0.113.9")
    assert service.call("GET", "/api/v1/me", *headers).code == "outside_time_window"


def test_an_unparsable_source_is_refused_only_with_an_allow_list(start: Start) -> None:
    keys = [
        mirrored_key(source_allow_list=["0.0.0.0/0", "::/0"]),
        mirrored_key(key_id="ak_ffffffffffff"),
    ]
    service = start(MemoryChannel(mirror(*keys)), client_address="load_balancer")
    assert service.call("GET", "/api/v1/me", *CREDENTIALS, "X-Forwarded-For: unknown").code == "forbidden"
    other = (f"Authorization: Bearer ak_ffffffffffff.{SECRET}", CREDENTIALS[1])
    assert service.call("GET", "/api/v1/me", *other, "X-Forwarded-For: unknown").status == 200


def test_outside_the_allowed_hours_says_which_they_are(start: Start) -> None:
    key = mirrored_key(allowed_hours={"start_hour": 12, "end_hour": 13})
    service = start(MemoryChannel(mirror(key)))
    service.clock.now_ms = NOON
    assert service.call("GET", "/api/v1/me", *CREDENTIALS).status == 200
    service.clock.now_ms = NOON + 3_600_000
    reply = service.call("GET", "/api/v1/me", *CREDENTIALS)
    assert (reply.status, reply.code) == (403, "outside_time_window")
    assert reply.json["error"]["details"] == {"valid_hours_utc": {"start_hour": 12, "end_hour": 13}}


def test_429_comes_before_the_scope_and_counts_what_the_scope_refuses(start: Start) -> None:
    service = start(MemoryChannel(mirror(mirrored_key(rate_limit_rpm=2, scopes=[SCOPE_WORKFLOWS_READ]))))
    service.clock.now_ms = NOON + 45_500
    codes = [service.call("GET", "/api/v1/runs", *CREDENTIALS).code for _ in range(3)]
    assert codes == ["forbidden", "forbidden", "rate_limited"]
    reply = service.call("GET", "/api/v1/me", *CREDENTIALS)
    assert (reply.status, reply.headers["Retry-After"]) == (429, "15")
    assert reply.json["error"]["message"] == "The limit of 2 requests per minute is full; wait 15 seconds."
    service.clock.now_ms = NOON + 60_000
    assert service.call("GET", "/api/v1/me", *CREDENTIALS).status == 200


@pytest.mark.parametrize(
    ("call", "length", "body"),
    [
        ("POST /api/v1/workflows/wf_1/runs", "Content-Length: 2", "{}"),
        ("GET /api/v1/me", "Transfer-Encoding: chunked", "0\r\n\r\n"),
    ],
)
def test_a_call_counts_in_the_minute_in_which_its_body_was_complete(
    start: Start, call: str, length: str, body: str
) -> None:
    service = start(MemoryChannel(mirror(mirrored_key(rate_limit_rpm=1))))
    service.clock.now_ms = NOON
    head = [f"{call} HTTP/1.1", "Host: test", *CREDENTIALS, "Expect: 100-continue"]
    with Wire(service.edge.port) as slow:
        slow.send("\r\n".join([*head, length, "", ""]))
        assert slow.read(head_only=True).status == 100
        service.clock.now_ms = NOON + 60_000
        assert service.call("GET", "/api/v1/me", *CREDENTIALS).status == 200
        slow.send(body)
        assert slow.read().code == "rate_limited"
    assert service.call("GET", "/api/v1/me", *CREDENTIALS).code == "rate_limited"


def test_what_ends_before_order_4_is_not_counted(start: Start) -> None:
    service = start(MemoryChannel(mirror(mirrored_key(rate_limit_rpm=1))))
    keeps_caches_valid = [("GET", "/api/v1/health"), ("GET", "/api/v1/nowhere"), ("PUT", "/api/v1/me")]
    for method, path in keeps_caches_valid:
        service.call(method, path, *CREDENTIALS)
    service.call("OPTIONS", "/api/v1/me", *CREDENTIALS, "Origin: https://a.example")
    assert service.call("GET", "/api/v1/me", *CREDENTIALS).status == 200


def test_a_missing_scope_is_forbidden_before_validation(start: Start) -> None:
    service = start(MemoryChannel(mirror(mirrored_key(scopes=[SCOPE_RUNS_READ]))))
    reply = service.call("POST", "/api/v1/workflows/wf_1/runs", *CREDENTIALS, body=b'{"unknown": 1}')
    assert (reply.status, reply.code) == (403, "forbidden")


@pytest.mark.parametrize(("method", "path"), [*BODY_ROUTES, ("GET", "/api/v1/me"), ("GET", "/api/v1/nowhere")])
def test_413_is_decided_before_anything_else_on_every_path(service: Service, method: str, path: str) -> None:
    assert service.call(method, path, "Content-Length: 2097152").code == "payload_too_large"
    with Wire(service.edge.port) as wire:
        wire.send(f"{method} {path} HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n")
        wire.send((b"80000\r\n" + b"x" * 0x80000 + b"\r\n") * 3)
        assert wire.read().code == "payload_too_large"


@pytest.mark.parametrize(("method", "path"), BODY_ROUTES)
def test_malformed_json_is_refused_before_the_key_with_its_byte_offset(start: Start, method: str, path: str) -> None:
    service = closed_service(start, governed=False)
    reply = service.call(method, path, body='{"é": x}'.encode())
    assert (reply.status, reply.code) == (400, "invalid_request")
    [problem] = reply.json["error"]["details"]
    assert problem["name"] == "body"
    assert "7" in re.findall("[0-9]+", problem["reason"])
    assert service.call(method, path, body=b"{}").code == "deployment_updating"
    assert service.call(method, path).code == "deployment_updating"


def test_a_body_on_a_route_without_one_is_not_looked_at(service: Service) -> None:
    assert service.call("GET", "/api/v1/me", *CREDENTIALS, body=b"{nonsense").status == 200


@pytest.mark.parametrize("coding", ["gzip", "identity, gzip", "br", "x"])
def test_a_compressed_body_is_refused_before_the_key(service: Service, coding: str) -> None:
    reply = service.call("POST", "/api/v1/runs/run_1/cancel", f"Content-Encoding: {coding}", body=b"{}")
    assert (reply.code, reply.json["error"]["details"][0]["name"]) == ("invalid_request", "body")


def test_identity_is_no_compression(service: Service) -> None:
    reply = service.call("POST", "/api/v1/runs/run_1/cancel", *CREDENTIALS, "Content-Encoding: Identity", body=b"{}")
    assert reply.status == 202


def test_an_unknown_path_is_told_before_malformed_json(service: Service) -> None:
    assert service.call("POST", "/api/v1/nowhere", body=b"{nonsense").code == "not_found"
    assert service.call("PUT", "/api/v1/runs/run_1/cancel", body=b"{nonsense").code == "method_not_allowed"


def test_a_start_names_the_run_and_a_replay_says_so(start: Start) -> None:
    service = start()
    headers = (*CREDENTIALS, "Idempotency-Key: a")
    service.channel.answers[RUNS + "StartRun"] = lambda _: run_started(replayed=False)
    reply = service.call("POST", "/api/v1/workflows/wf_1/runs", *headers, body=b"{}")
    assert (reply.status, reply.headers["Location"]) == (201, "/api/v1/runs/run_7")
    service.channel.answers[RUNS + "StartRun"] = lambda _: run_started(replayed=True)
    reply = service.call("POST", "/api/v1/workflows/wf_1/runs", *headers, body=b"{}")
    assert (reply.status, reply.headers["Idempotency-Replayed"]) == (200, "true")
    assert "Location" not in reply.headers


def test_an_idempotency_key_on_another_route_is_ignored(service: Service) -> None:
    reply = service.call("POST", "/api/v1/runs/run_1/cancel", *CREDENTIALS, "Idempotency-Key: " + "x" * 500)
    assert reply.status == 202


def test_a_refusal_of_the_service_keeps_status_headers_and_details(start: Start) -> None:
    service = start()
    service.channel.answers[RUNS + "ListRuns"] = refusing("too_many_active_runs", retry_after=5)
    reply = service.call("GET", "/api/v1/runs", *CREDENTIALS)
    assert (reply.status, reply.code, reply.headers["Retry-After"]) == (429, "too_many_active_runs", "5")


def test_an_exception_is_internal_and_leaks_nothing(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    def broken(_: object) -> ListRunsResponse:
        raise ValueError("secret")

    service = start()
    service.channel.answers[RUNS + "ListRuns"] = broken
    reply = service.call("GET", "/api/v1/runs", *CREDENTIALS, "X-Request-Id: mine")
    assert (reply.status, reply.code) == (500, "internal")
    assert b"secret" not in reply.body
    assert [(each.message, each.__dict__["request_id"]) for each in caplog.records] == [("A request failed", "mine")]


PREFLIGHTS = ["/api/v1/me", "/api/v1/nowhere", "/api/v1", "/api/v1/runs/a%2Fb/x/y/z"]


@pytest.mark.parametrize("path", PREFLIGHTS)
def test_a_preflight_is_answered_on_any_path_before_credentials(start: Start, path: str) -> None:
    reply: Reply = closed_service(start, governed=False).call(
        "OPTIONS",
        path,
        "Origin: https://a.example",
        "Access-Control-Request-Method: DELETE",
        "Access-Control-Request-Headers: authorization, x-service-key-external-id",
    )
    assert (reply.status, reply.body) == (204, b"")
    assert reply.headers["Access-Control-Allow-Origin"] == "https://a.example"
    assert reply.headers["Access-Control-Allow-Credentials"] == "true"
    assert "DELETE" in reply.headers["Access-Control-Allow-Methods"].split(", ")
    assert reply.headers["Access-Control-Allow-Headers"] == "authorization, x-service-key-external-id"
    assert reply.headers["Access-Control-Max-Age"] == "600"
    assert "Content-Length" not in reply.headers


def test_a_calls_own_answer_reflects_the_origin_refused_or_not(service: Service) -> None:
    for headers in ((), CREDENTIALS):
        reply = service.call("GET", "/api/v1/me", *headers, "Origin: null")
        assert reply.headers["Access-Control-Allow-Origin"] == "null"
        assert reply.headers["Access-Control-Allow-Credentials"] == "true"
        assert reply.headers["Vary"] == "Origin"
        assert "RateLimit-Limit" in reply.headers["Access-Control-Expose-Headers"].split(", ")


def test_usage_is_recorded_with_route_address_and_reason(start: Start) -> None:
    service = start()
    service.call("GET", "/api/v1/health")
    service.call("OPTIONS", "/api/v1/me", "Origin: https://a.example")
    service.call("GET", "/api/v1/me?secret=1", *CREDENTIALS, "X-Request-Id: a")
    service.call("GET", "/api/v1/runs/run_1?limit=x", "X-Request-Id: b")
    service.call("GET", "/api/v1/nowhere", *CREDENTIALS, "X-Request-Id: c")
    wait_until(lambda: len(service.channel.usage) == 3)
    seen = [(r.key_id, r.method, r.route, r.status, r.address, r.reason, r.request_id) for r in service.channel.usage]
    assert sorted(seen, key=itemgetter(-1)) == [
        (KEY_ID, "GET", "/me", 200, "127.0.0.1", "", "a"),
        ("", "GET", "/runs/{run_id}", 401, "127.0.0.1", "unauthorized", "b"),
        ("", "GET", "", 404, "127.0.0.1", "not_found", "c"),
    ]
    assert all(record.duration_us > 0 for record in service.channel.usage)


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ({"rate_limit_rpm": 0}, "rate_limited"),
        ({"source_allow_list": ["203.0.113.0/24"]}, "forbidden"),
        ({"scopes": []}, "forbidden"),
    ],
)
def test_a_refusal_after_identification_is_recorded_against_the_key(
    start: Start, key: dict[str, object], reason: str
) -> None:
    service = start(MemoryChannel(mirror(mirrored_key(**key))))
    service.call("GET", "/api/v1/runs", *CREDENTIALS)
    wait_until(lambda: bool(service.channel.usage))
    [record] = service.channel.usage
    assert (record.key_id, record.reason) == (KEY_ID, reason)


def test_bytes_beyond_ascii_anywhere_never_break_a_call(service: Service) -> None:
    with Wire(service.edge.port) as wire:
        wire.send(b"GET /api/v1/runs/\xe9\xff?x=\xff HTTP/1.1\r\nHost: \xff\r\nX-Request-Id: \xff\r\n")
        wire.send(b"Authorization: Bearer \xff\r\nX-Service-Key-External-Id: \xff\r\n\r\n")
        assert wire.read().status in {400, 401}
