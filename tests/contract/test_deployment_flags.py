"""A deployment that does not serve keys. (contract 5.2, 10.2)"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.client import Caller
from tests.support.expect import invalid, refused
from tests.support.poll import until
from tests.support.routes import KEYED
from tests.support.service import Service
from tests.support.wire import exchange, request
from workflow_api.v1 import deployment_pb2


def change(service: Service, **flags: Any) -> None:
    service.admin.deployment.UpdateDeployment(deployment_pb2.UpdateDeploymentRequest(**flags))


@pytest.fixture(scope="module", params=[("governed", "not_governed"), ("api_enabled", "not_enabled")], ids=str)
def closed(request: pytest.FixtureRequest, changing_service: Service) -> Iterator[tuple[Service, Caller, str]]:
    """A service with one flag off, a caller with a valid key, and the reason of its refusal."""
    flag, reason = request.param
    caller = changing_service.new_caller()
    change(changing_service, **{flag: False})
    until(lambda: caller.get("/me").status == 503, f"{flag} to be off")
    yield changing_service, caller, reason
    change(changing_service, **{flag: True})
    until(lambda: caller.get("/me").status == 200, f"{flag} to be on")


def test_health_follows_the_flag_live(changing_service: Service) -> None:
    def is_now(status: str) -> Callable[[], bool]:
        return lambda: changing_service.call("GET", "/health").json()["status"] == status

    for enabled, status in ((False, "disabled"), (True, "ok")):
        change(changing_service, api_enabled=enabled)
        until(is_now(status), f"health {status}")


def test_every_keyed_route_answers_503_with_its_reason(closed: tuple[Service, Caller, str]) -> None:
    _, caller, reason = closed
    for route in KEYED:
        answer = caller.call(route.method, route.path())
        refused(answer, 503, "deployment_updating", {"reason": reason})
        assert answer.headers["Retry-After"] == "60"


def test_503_comes_before_the_credentials(closed: tuple[Service, Caller, str]) -> None:
    service, _, reason = closed
    refused(service.call("GET", "/me"), 503, "deployment_updating", {"reason": reason})
    answer = service.call("GET", "/me", {"Authorization": "Bearer ak_wrong.secret"})
    refused(answer, 503, "deployment_updating", {"reason": reason})


def test_order_0_comes_before_503(closed: tuple[Service, Caller, str]) -> None:
    service, _, _ = closed
    large = exchange(service.address, request("GET", "/me", ("Content-Length", "2097152")))
    refused(large, 413, "payload_too_large")
    refused(service.call("GET", "/nowhere"), 404, "not_found")
    refused(service.call("PUT", "/me"), 405, "method_not_allowed")
    invalid(service.call("POST", "/runs/x/cancel", body=b"{"), "body")
    assert service.call("OPTIONS", "/me", {"Origin": "https://a.test"}).status == 204


def test_health_is_disabled_and_has_the_same_fields(closed: tuple[Service, Caller, str]) -> None:
    service, _, _ = closed
    until(lambda: service.call("GET", "/health").json()["status"] == "disabled", "health")
    answer = service.call("GET", "/health")
    assert answer.status == 200
    assert set(answer.json()) == {"status", "deployment_id", "api_version"}
