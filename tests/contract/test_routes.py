"""The route table: 17 routes, their methods, their scopes, and every other path. (contract 3)"""

from collections.abc import Callable
from typing import Any

import pytest

from tests.contract.conftest import NewCaller
from tests.support.admin import SCOPES
from tests.support.client import Caller, call
from tests.support.expect import refused
from tests.support.routes import KEYED, ROUTES, RUN_ROUTES, SCOPED, Route
from tests.support.service import Service
from tests.support.wire import exchange, request

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD")


@pytest.fixture(scope="module")
def narrow_caller(service: Service) -> Callable[[frozenset[str]], Caller]:
    """Callers with exactly these scopes, each made once."""
    made: dict[frozenset[str], Caller] = {}

    def narrow(scopes: frozenset[str]) -> Caller:
        if scopes not in made:
            made[scopes] = service.new_caller(scopes=sorted(scopes))
        return made[scopes]

    return narrow


@pytest.mark.parametrize("route", KEYED, ids=str)
def test_every_route_but_health_needs_a_key(service: Service, route: Route) -> None:
    refused(service.call(route.method, route.path()), 401, "unauthorized")


def test_health_needs_no_key(service: Service) -> None:
    assert service.call("GET", "/health").status == 200


def test_me_needs_no_scope(new_caller: NewCaller) -> None:
    assert new_caller(scopes=["runs:delete"]).get("/me").status == 200


@pytest.mark.parametrize("route", SCOPED, ids=str)
def test_a_key_without_the_scope_of_the_route_is_forbidden(
    narrow_caller: Callable[[frozenset[str]], Caller], route: Route
) -> None:
    # runs:create stands only together with workflows:read.
    without = {route.scope} | ({"runs:create"} if route.scope == "workflows:read" else set())
    caller = narrow_caller(frozenset(SCOPES) - without)
    refused(caller.call(route.method, route.path()), 403, "forbidden")


@pytest.mark.parametrize("route", SCOPED, ids=str)
def test_the_scope_of_the_route_is_enough(
    narrow_caller: Callable[[frozenset[str]], Caller], flows: dict[str, str], route: Route
) -> None:
    assert route.scope is not None
    caller = narrow_caller(frozenset({route.scope} | ({"workflows:read"} if route.scope == "runs:create" else set())))
    answer = caller.call(route.method, route.path(workflow_id=flows["Echo"]), headers={"Idempotency-Key": "once"})
    # The run does not exist for this key: past the scope check it gets run_not_found.
    assert (answer.status, answer.code) == ((404, "run_not_found") if route in RUN_ROUTES else (route.success, None))


@pytest.mark.parametrize("path", ["/nowhere", "", "/", "/me/", "/runs/", "/health/", "/workflows/", "/v2/me", "/ME"])
def test_a_path_that_does_not_exist_is_not_found_without_a_key(service: Service, path: str) -> None:
    refused(service.call("GET", path), 404, "not_found")


def test_a_path_below_a_route_that_does_not_exist_is_not_found(resident: Caller, echo_run: dict[str, Any]) -> None:
    refused(resident.get(f"/runs/{echo_run['run_id']}/nothing"), 404, "not_found")


@pytest.mark.parametrize("route", ROUTES, ids=str)
def test_a_wrong_method_is_not_allowed_without_a_key_and_the_answer_lists_the_allowed(
    service: Service, route: Route
) -> None:
    here = {other.method for other in ROUTES if other.template == route.template}
    for method in sorted(set(METHODS) - here):
        answer = service.call(method, route.path())
        assert answer.status == 405, (method, answer)
        allowed = {name.strip() for name in answer.headers["Allow"].split(",")}
        assert here <= allowed <= here | {"OPTIONS"}
        if method != "HEAD":
            refused(answer, 405, "method_not_allowed")


def test_head_is_a_wrong_method_and_its_answer_has_no_body(service: Service) -> None:
    answer = exchange(service.address, request("HEAD", "/me", ("Connection", "close")), body_expected=False)
    assert answer.status == 405
    assert "GET" in answer.headers["Allow"]


def test_an_unknown_method_is_not_allowed(service: Service) -> None:
    refused(service.call("BREW", "/me"), 405, "method_not_allowed")


def test_an_encoded_slash_makes_no_segment(resident: Caller, echo_run: dict[str, Any]) -> None:
    run_id = echo_run["run_id"]
    refused(resident.get(f"/runs%2F{run_id}"), 404, "not_found")
    refused(resident.get(f"/runs/{run_id}%2Fsteps"), 404, "run_not_found")
    refused(resident.get(f"/runs/x%2F..%2F{run_id}"), 404, "run_not_found")
    refused(resident.get(f"/runs/{run_id}/outputs%2Fx/content"), 404, "not_found")


def test_dot_segments_are_not_found(resident: Caller) -> None:
    assert resident.get("/runs/../me").code in {"not_found", "run_not_found"}
    assert resident.get("/runs/%2e%2e/me").code == "not_found"


def test_an_id_with_a_null_character_is_not_found(resident: Caller, echo_run: dict[str, Any]) -> None:
    refused(resident.get("/runs/run%00"), 404, "run_not_found")
    refused(resident.get("/workflows/wf%00"), 404, "workflow_not_found")
    refused(resident.get(f"/runs/{echo_run['run_id']}/outputs/out%00/content"), 404, "output_not_found")


def test_an_id_that_is_not_unicode_never_reaches_the_backend(resident: Caller) -> None:
    assert resident.get("/runs/%FF%FE").status in {400, 404}


@pytest.mark.parametrize("path", ["/", "/api", "/api/v2/me", "/console", "/metrics", "/api/v1x/me"])
def test_outside_the_base_nothing_else_is_public(service: Service, path: str) -> None:
    assert call(service.address, "GET", path).status == 404
