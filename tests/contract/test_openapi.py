"""The machine-readable description and the page made from it. (contract 23.2)"""

import json
from typing import Any

import pytest
from openapi_spec_validator import validate

from tests.contract.conftest import NewCaller
from tests.support.client import Caller, call
from tests.support.routes import ROUTES, Route
from tests.support.schemas import misfits
from tests.support.service import Service
from tests.support.wire import Answer

# What any keyed route can be refused with, whatever it does.
EVERYWHERE = {
    "401": {"unauthorized"},
    "403": {"forbidden", "outside_time_window"},
    "413": {"payload_too_large"},
    "429": {"rate_limited"},
    "500": {"internal"},
    "502": {"runtime_error", "runtime_unreachable"},
    "503": {"deployment_updating"},
}


@pytest.fixture(scope="module")
def description(service: Service) -> Any:
    answer = call(service.address, "GET", "/openapi.json")
    assert answer.status == 200
    assert answer.headers["Content-Type"].split(";")[0] == "application/json"
    return answer.json()


def operations(description: Any) -> dict[tuple[str, str], Any]:
    return {
        (method.upper(), path): operation
        for path, item in description["paths"].items()
        for method, operation in item.items()
        if method in {"get", "put", "post", "delete", "patch", "head", "options", "trace"}
    }


def test_the_description_is_valid_openapi_3_1(description: Any) -> None:
    assert description["openapi"].startswith("3.1.")
    validate(description)


def test_it_declares_exactly_the_seventeen_routes(description: Any) -> None:
    assert set(operations(description)) == {(route.method, route.template) for route in ROUTES}
    assert len(ROUTES) == 17


def test_its_version_is_the_contract_date_of_health(description: Any, service: Service) -> None:
    assert description["info"]["version"] == "2026-09-24"
    assert service.call("GET", "/health").json()["api_version"] == "2026-09-24"


def test_its_servers_are_the_address_that_is_served_and_the_domain_of_the_deployment(
    description: Any, service: Service
) -> None:
    served, by_domain = description["servers"]
    assert call(service.address, "GET", f"{served['url']}/health").json()["status"] == "ok"
    assert by_domain["url"] == "https://{app_domain}/api/v1"
    assert set(by_domain["variables"]) == {"app_domain"}


def test_both_security_schemes_are_required_on_every_path_but_health(description: Any) -> None:
    schemes = description["components"]["securitySchemes"]
    kinds = {name: (scheme["type"], scheme.get("scheme"), scheme.get("in")) for name, scheme in schemes.items()}
    assert sorted(kinds.values(), key=str) == [("apiKey", None, "header"), ("http", "bearer", None)]
    [header] = [scheme["name"] for scheme in schemes.values() if scheme["type"] == "apiKey"]
    assert header == "X-Service-Key-External-Id"
    for (_, path), operation in operations(description).items():
        required = operation.get("security", description.get("security", []))
        if path == "/health":
            assert required == []
        else:
            assert [set(requirement) for requirement in required] == [set(schemes)]


@pytest.mark.parametrize("route", ROUTES, ids=str)
def test_each_operation_declares_its_success_and_its_error_codes(description: Any, route: Route) -> None:
    answers = operations(description)[route.method, route.template]["responses"]
    assert str(route.success) in answers
    expected = {"500": {"internal"}} if route.scope == "" else EVERYWHERE
    for status, codes in expected.items():
        described = json.dumps(answers[status]) + json.dumps(resolved(description, answers[status]))
        assert codes <= {code for code in codes if code in described}, (status, described)
    if "{run_id}" in route.template:
        assert "run_not_found" in json.dumps(resolved(description, answers["404"]))


def resolved(description: Any, node: Any) -> Any:
    """The node with references inside it followed."""
    if isinstance(node, dict):
        if "$ref" in node:
            target = description
            for part in node["$ref"].removeprefix("#/").split("/"):
                target = target[part]
            return resolved(description, target)
        return {name: resolved(description, value) for name, value in node.items()}
    return [resolved(description, value) for value in node] if isinstance(node, list) else node


def test_the_start_declares_its_idempotency_key_and_no_other_route_does(description: Any) -> None:
    with_key = [
        path
        for (_, path), operation in operations(description).items()
        for parameter in operation.get("parameters", [])
        if resolved(description, parameter)["name"] == "Idempotency-Key"
    ]
    assert with_key == ["/workflows/{workflow_id}/runs"]


def test_every_success_of_every_route_is_as_described(
    description: Any, caller: Caller, service: Service, flows: dict[str, str]
) -> None:
    run = caller.finished(flows["Echo"], input_text="x", labels={"a": "b"})
    failed = caller.finished(flows["Failure"])
    parked = caller.parked(flows["Gate"])
    ids = {"workflow_id": flows["Typed"], "run_id": run["run_id"]}
    detecting = caller.started(flows["Detecting"])
    asked: list[tuple[Route, str]] = []
    for route in ROUTES:
        if route.method != "GET" or "outputs.zip" in route.template or "output_id" in route.template:
            continue
        special = {"run_id": detecting} if "pii" in route.template else {}
        asked.append((route, route.path(**{**ids, **special})))
    for run_id in (failed["run_id"], parked["run_id"]):
        asked += [(route, route.path(run_id=run_id)) for route in ROUTES if route.template == "/runs/{run_id}"]
        asked += [
            (route, route.path(run_id=run_id))
            for route in ROUTES
            if route.template.endswith(("steps", "approvals", "events"))
        ]
    for route, path in asked:
        answer = caller.get(path)
        assert answer.status == 200, (path, answer)
        assert misfits(description, route, answer) == [], path
    for route in ROUTES:
        if route.method == "GET":
            continue
        if route.template.endswith("/runs"):
            answer = caller.start(flows["Echo"], input_text="x")
        elif route.template.endswith("/cancel"):
            answer = caller.post(route.path(run_id=parked["run_id"]))
        else:
            answer = caller.delete(route.path(run_id=failed["run_id"]))
        assert answer.status == route.success, answer
        assert misfits(description, route, answer) == [], route
    erased = next(route for route in ROUTES if route.template == "/runs/{run_id}")
    assert misfits(description, erased, caller.get(erased.path(run_id=failed["run_id"]))) == []


# Of HTTP itself, and of the connection.
TRANSPORT = {"date", "content-type", "content-length", "transfer-encoding", "connection"}


def test_every_header_of_every_answer_is_described(  # noqa: C901, PLR0915 - one run serves all statuses
    description: Any, caller: Caller, new_caller: NewCaller, service: Service, flows: dict[str, str]
) -> None:
    run = caller.finished(flows["Echo"], input_text="x")
    output = caller.get(f"/runs/{run['run_id']}/outputs").json()["items"][0]["output_id"]
    parked = caller.parked(flows["Gate"])["run_id"]
    seen: set[tuple[str, int]] = set()

    def hold(route: Route, answer: Answer) -> None:
        described = operations(description)[route.method, route.template]["responses"][str(answer.status)]
        headers = {name.lower(): header for name, header in resolved(description, described)["headers"].items()}
        sent = {name.lower() for name in answer.headers}
        assert sent - TRANSPORT <= headers.keys(), (route, answer.status, sent)
        assert {name for name, header in headers.items() if header["required"]} <= sent, (route, answer.status, sent)
        seen.add((str(route), answer.status))

    unscoped = new_caller(scopes=["outputs:read"])
    slow = new_caller(rate_limit_rpm=1)
    slow.get("/me")
    small = new_caller(max_concurrent_runs=1)
    ids = {"workflow_id": flows["Echo"], "run_id": run["run_id"], "output_id": output}
    for route in ROUTES:
        path, method = route.path(**ids), route.method
        # The run stays until the end.
        hold(route, caller.call(method, route.path(**{**ids, "run_id": parked}) if method == "DELETE" else path))
        hold(route, caller.call("PUT", path))
        hold(route, call(service.address, method, f"/api/v1{path}", {"Content-Length": "1048577"}))
        if route.scope == "":
            continue
        hold(route, call(service.address, method, f"/api/v1{path}"))
        hold(route, slow.call(method, path))
        if route.scope and route.scope != "outputs:read":
            hold(route, unscoped.call(method, path))
        if "{" in route.template:
            hold(route, caller.call(method, route.path(), headers={"Idempotency-Key": "k"}))
            hold(route, caller.call(method, route.path(**{**ids, "workflow_id": "w" * 129, "run_id": "r" * 129})))
        if "outputs" in route.template:
            hold(route, caller.call(method, route.path(**{**ids, "run_id": parked})))
    for route in ROUTES:
        path = route.path(**ids)
        if "zip" in route.template or "content" in route.template:
            for conditions in ({"Range": "bytes=0-1"}, {"Range": "bytes=999999999-"}, {"If-None-Match": "*"}):
                hold(route, caller.call("GET", path, headers=conditions))
        elif route.template == "/runs/{run_id}":
            hold(route, caller.call("GET", path, headers={"If-None-Match": "*"}))
        elif route.template.endswith("events"):
            hold(route, caller.call("GET", path, headers={"Accept": "text/event-stream"}))
        elif route.method == "POST" and route.template.endswith("runs"):
            hold(route, caller.start(flows["Echo"], "one"))
            hold(route, caller.start(flows["Echo"], "one"))
            hold(route, caller.start(flows["Drafted"], "draft"))
            hold(route, caller.start(flows["Echo"], version=99))
            small.start(flows["Park"])
            hold(route, small.start(flows["Park"]))
        elif route.template.endswith("cancel"):
            hold(route, caller.post(route.path(run_id=parked)))
        elif route.method == "DELETE":
            hold(route, caller.delete(path))
            hold(route, caller.delete(path))
    assert {status for _, status in seen} == {
        *(200, 201, 202, 206, 304, 400, 401, 403, 404, 405, 409, 413, 416, 422, 429)
    }


def test_the_reference_page_shows_every_route(service: Service) -> None:
    answer = call(service.address, "GET", "/docs")
    assert answer.status == 200
    assert answer.headers["Content-Type"].startswith("text/html")
    page = answer.body.decode()
    for route in ROUTES:
        assert route.template in page
    assert "idempotency_conflict" in page
    assert "//cdn" not in page


def test_description_and_page_are_served_outside_the_base(service: Service) -> None:
    for path in ("/openapi.json", "/docs"):
        assert service.call("GET", path).code == "not_found"
