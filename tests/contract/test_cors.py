"""Browser callers. (contract 6.2 to 6.5)"""

import pytest

from tests.support.client import Caller
from tests.support.expect import refused
from tests.support.routes import ROUTES, Route
from tests.support.service import Service
from tests.support.wire import Answer, exchange, request

ORIGIN = "https://app.example:8443"
EXPOSED = {
    "X-Request-Id",
    "Retry-After",
    "Location",
    "Content-Range",
    "Content-Disposition",
    "ETag",
    "Idempotency-Replayed",
    "RateLimit-Limit",
    "RateLimit-Remaining",
    "RateLimit-Reset",
}


def listed(answer: Answer, name: str) -> set[str]:
    return {member.strip() for member in answer.headers.get(name, "").split(",")}


def preflight(service: Service, path: str, method: str = "POST", asked: str = "authorization, x-odd") -> Answer:
    headers = {
        "Origin": ORIGIN,
        "Access-Control-Request-Method": method,
        "Access-Control-Request-Headers": asked,
    }
    return service.call("OPTIONS", path, headers)


@pytest.mark.parametrize("path", [*sorted({route.path() for route in ROUTES}), "/nowhere", "/", ""])
def test_a_preflight_is_answered_before_the_key_on_any_path(service: Service, path: str) -> None:
    answer = preflight(service, path)
    assert (answer.status, answer.body) == (204, b"")
    assert answer.headers["Access-Control-Allow-Origin"] == ORIGIN
    assert answer.headers["Access-Control-Allow-Credentials"] == "true"
    assert answer.headers["Access-Control-Max-Age"] == "600"
    assert answer.headers["X-Request-Id"]
    assert answer.headers["Cache-Control"] == "no-store"
    assert "Origin" in listed(answer, "Vary")


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"])
def test_a_preflight_allows_every_method_and_the_requested_headers(service: Service, method: str) -> None:
    answer = preflight(service, "/me", method, "authorization, x-service-key-external-id, idempotency-key, x-odd")
    assert method in listed(answer, "Access-Control-Allow-Methods")
    allowed = {name.lower() for name in listed(answer, "Access-Control-Allow-Headers")}
    assert {"authorization", "x-service-key-external-id", "idempotency-key", "x-odd"} <= allowed


def test_every_options_with_an_origin_is_a_preflight(service: Service) -> None:
    assert service.call("OPTIONS", "/me", {"Origin": ORIGIN}).status == 204


def test_options_without_an_origin_is_a_wrong_method(service: Service) -> None:
    refused(service.call("OPTIONS", "/me"), 405, "method_not_allowed")


def test_a_preflight_with_a_request_id_echoes_it(service: Service) -> None:
    answer = service.call("OPTIONS", "/me", {"Origin": ORIGIN, "X-Request-Id": "flight"})
    assert answer.headers["X-Request-Id"] == "flight"


@pytest.mark.parametrize("route", ROUTES, ids=str)
def test_the_answer_itself_carries_the_origin_headers(resident: Caller, route: Route) -> None:
    carries_cors(resident.call(route.method, route.path(), headers={"Origin": ORIGIN}))


def test_refusals_before_the_key_carry_them_too(service: Service) -> None:
    origin = ("Origin", ORIGIN)
    large = request("POST", "/runs/x/cancel", origin, ("Content-Length", "2097152"))
    malformed = request("POST", "/runs/x/cancel", origin, ("Content-Length", "1"), ("Connection", "close"), body=b"{")
    answers = [exchange(service.address, large), exchange(service.address, malformed)]
    answers += [service.call(method, path, dict([origin])) for method, path in (("GET", "/x"), ("PUT", "/me"))]
    answers.append(service.call("GET", "/me", dict([origin])))
    assert [answer.status for answer in answers] == [413, 400, 404, 405, 401]
    for answer in answers:
        carries_cors(answer)


def test_refusals_of_the_parser_carry_the_common_headers(service: Service) -> None:
    head = (
        b"GET /api/v1/me HTTP/1.1\r\nHost: x\r\nX-Request-Id: mine\r\nOrigin: "
        + ORIGIN.encode()
        + b"\r\nbad header\r\n\r\n"
    )
    answer = exchange(service.address, head)
    carries_cors(answer)
    assert (answer.status, answer.error["request_id"]) == (400, "mine")


def carries_cors(answer: Answer) -> None:
    assert answer.headers["Access-Control-Allow-Origin"] == ORIGIN
    assert answer.headers["Access-Control-Allow-Credentials"] == "true"
    assert "Origin" in listed(answer, "Vary")
    exposed = {name.lower() for name in listed(answer, "Access-Control-Expose-Headers")}
    assert {name.lower() for name in EXPOSED} <= exposed


def test_a_download_carries_them_too(resident: Caller, tree_run: dict[str, str]) -> None:
    outputs = resident.outputs(tree_run["run_id"])
    path = outputs["grow/table.csv"]["download"]["path"].removeprefix("/api/v1")
    for target in (path, f"/runs/{tree_run['run_id']}/outputs.zip"):
        answer = resident.get(target, headers={"Origin": ORIGIN})
        assert answer.status == 200
        carries_cors(answer)


def test_the_origin_null_is_reflected(resident: Caller) -> None:
    assert resident.get("/me", headers={"Origin": "null"}).headers["Access-Control-Allow-Origin"] == "null"


def test_without_an_origin_there_are_no_origin_headers(resident: Caller) -> None:
    answer = resident.get("/me")
    assert not [name for name in answer.headers if name.lower().startswith("access-control-")]
