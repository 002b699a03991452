import itertools
from collections.abc import Callable
from typing import cast

import pytest
from google.api.annotations_pb2 import http
from google.api.http_pb2 import HttpRule
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, MethodDescriptorProto

from contract.refusals import Refusal
from contract.routes import METHODS, RouteTable
from workflow_api.v1 import options_pb2
from workflow_api.v1.errors_pb2 import ERROR_REASON_RUN_NOT_FOUND, ERROR_REASON_UNSPECIFIED
from workflow_api.v1.options_pb2 import (
    ACCESS_INTERNAL,
    ACCESS_PUBLIC,
    ACCESS_SCOPE,
    SCOPE_RUNS_READ,
    field_rules,
    method_rules,
)

ROUTES = RouteTable()
RUNS = "/workflow_api.v1.RunsService"
FILE_NUMBERS = itertools.count()

Change = Callable[[MethodDescriptorProto, FieldDescriptorProto], None]


def http_rule(called: MethodDescriptorProto) -> HttpRule:
    # The extension's stub calls it a descriptor.
    return cast("HttpRule", called.options.Extensions[http])  # type: ignore[index]


def rpc(change: Change | None = None) -> dict[str, MethodDescriptor]:
    """Returns one proper routed RPC with one path parameter, after `change` spoilt it."""
    name = f"routes_test_{next(FILE_NUMBERS)}"
    file = FileDescriptorProto(name=f"{name}.proto", package=name, syntax="proto3")
    file.dependency.extend(["google/api/annotations.proto", "workflow_api/v1/options.proto"])
    request = file.message_type.add(name="Request")
    run_id = request.field.add(
        name="run_id", number=1, type=FieldDescriptorProto.TYPE_STRING, label=FieldDescriptorProto.LABEL_OPTIONAL
    )
    run_id.options.Extensions[field_rules].max_length = 128
    file.message_type.add(name="Response")
    called = file.service.add(name="Service").method.add(
        name="Get", input_type=f".{name}.Request", output_type=f".{name}.Response"
    )
    http_rule(called).get = "/api/v1/runs/{run_id}"
    rules = called.options.Extensions[method_rules]
    rules.access, rules.scope = ACCESS_SCOPE, SCOPE_RUNS_READ
    rules.errors.append(ERROR_REASON_RUN_NOT_FOUND)
    if change:
        change(called, run_id)
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(file.SerializeToString())
    return {f"/{name}.Service/Get": pool.FindMethodByName(f"{name}.Service.Get")}


def refused(http_method: str, path: str) -> Refusal:
    with pytest.raises(Refusal) as refusal:
        ROUTES.match(http_method, path)
    return refusal.value


def test_the_17_routes_of_the_contract() -> None:
    assert sorted((route.template, route.method, route.success_status) for route in ROUTES.routes) == [
        ("/api/v1/health", "GET", 200),
        ("/api/v1/me", "GET", 200),
        ("/api/v1/runs", "GET", 200),
        ("/api/v1/runs/{run_id}", "GET", 200),
        ("/api/v1/runs/{run_id}/approvals", "GET", 200),
        ("/api/v1/runs/{run_id}/cancel", "POST", 202),
        ("/api/v1/runs/{run_id}/data", "DELETE", 202),
        ("/api/v1/runs/{run_id}/events", "GET", 200),
        ("/api/v1/runs/{run_id}/outputs", "GET", 200),
        ("/api/v1/runs/{run_id}/outputs.zip", "GET", 200),
        ("/api/v1/runs/{run_id}/outputs/{output_id}/content", "GET", 200),
        ("/api/v1/runs/{run_id}/pii-redaction", "GET", 200),
        ("/api/v1/runs/{run_id}/steps", "GET", 200),
        ("/api/v1/workflows", "GET", 200),
        ("/api/v1/workflows/{workflow_id}", "GET", 200),
        ("/api/v1/workflows/{workflow_id}/parameters", "GET", 200),
        ("/api/v1/workflows/{workflow_id}/runs", "POST", 201),
    ]


def test_scopes_of_the_contract() -> None:
    scopes = {route.descriptor.name: options_pb2.Scope.Name(route.scope) for route in ROUTES.routes if route.scope}
    assert scopes == {
        "ListWorkflows": "SCOPE_WORKFLOWS_READ",
        "GetWorkflow": "SCOPE_WORKFLOWS_READ",
        "ListParameters": "SCOPE_WORKFLOWS_READ",
        "StartRun": "SCOPE_RUNS_CREATE",
        "CancelRun": "SCOPE_RUNS_CREATE",
        "EraseRunData": "SCOPE_RUNS_DELETE",
        "ListRuns": "SCOPE_RUNS_READ",
        "GetRun": "SCOPE_RUNS_READ",
        "ListRunApprovals": "SCOPE_RUNS_READ",
        "ListRunEvents": "SCOPE_RUNS_READ",
        "ListRunSteps": "SCOPE_RUNS_READ",
        "GetPiiRedaction": "SCOPE_RUNS_READ",
        "ListOutputs": "SCOPE_OUTPUTS_READ",
        "GetOutputsZip": "SCOPE_OUTPUTS_READ",
        "GetOutputContent": "SCOPE_OUTPUTS_READ",
    }


def test_three_routes_take_a_body_and_two_stream() -> None:
    assert {route.descriptor.name for route in ROUTES.routes if route.takes_body} == {
        "StartRun",
        "CancelRun",
        "EraseRunData",
    }
    assert {route.descriptor.name for route in ROUTES.routes if route.streaming} == {
        "GetOutputsZip",
        "GetOutputContent",
    }


@pytest.mark.parametrize(
    ("http_method", "path", "name", "params"),
    [
        ("GET", "/api/v1/me", "GetMe", {}),
        ("GET", "/api/v1/runs", "ListRuns", {}),
        ("GET", "/api/v1/runs/run_1", "GetRun", {"run_id": "run_1"}),
        ("GET", "/api/v1/runs/a%2Fb", "GetRun", {"run_id": "a%2Fb"}),
        ("GET", "/api/v1/runs/..", "GetRun", {"run_id": ".."}),
        ("GET", "/api/v1/runs/outputs.zip", "GetRun", {"run_id": "outputs.zip"}),
        ("GET", "/api/v1/runs/r/outputs.zip", "GetOutputsZip", {"run_id": "r"}),
        ("GET", "/api/v1/runs/r/outputs/o/content", "GetOutputContent", {"run_id": "r", "output_id": "o"}),
        ("POST", "/api/v1/workflows/w/runs", "StartRun", {"workflow_id": "w"}),
    ],
)
def test_a_call_finds_its_route_by_the_raw_path(http_method: str, path: str, name: str, params: dict[str, str]) -> None:
    route, path_params = ROUTES.match(http_method, path)
    assert (route.descriptor.name, path_params) == (name, params)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "/api/v1",
        "/api/v1/",
        "/api/v2/me",
        "/me",
        "/api/v1/me/",
        "/api/v1//me",
        "/api/v1/ME",
        "/api/v1/%6De",
        "/api/v1/runs/",
        "/api/v1/runs//steps",
        "/api/v1/runs/r/nothing",
        "/api/v1/runs/r%2Fsteps/x",
        "/api/v1/runs/r/outputs/o",
        "/api/v1/runs/r/outputs//content",
        "*",
    ],
)
def test_an_unknown_path_is_not_found(path: str) -> None:
    assert refused("GET", path).code == "not_found"


@pytest.mark.parametrize(
    ("http_method", "path", "allowed"),
    [
        ("PUT", "/api/v1/me", "GET"),
        ("HEAD", "/api/v1/me", "GET"),
        ("OPTIONS", "/api/v1/runs", "GET"),
        ("get", "/api/v1/runs", "GET"),
        ("GET", "/api/v1/runs/r/cancel", "POST"),
        ("POST", "/api/v1/runs/r/data", "DELETE"),
        ("GET", "/api/v1/workflows/w/runs", "POST"),
    ],
)
def test_a_wrong_method_is_405_with_allow(http_method: str, path: str, allowed: str) -> None:
    refusal = refused(http_method, path)
    assert (refusal.code, refusal.headers["Allow"]) == ("method_not_allowed", allowed)


def test_allow_names_every_method_in_order() -> None:
    def delete(called: MethodDescriptorProto, _: FieldDescriptorProto) -> None:
        http_rule(called).delete = "/api/v1/runs/{run_id}"

    with pytest.raises(Refusal) as refusal:
        RouteTable({**rpc(), **rpc(delete)}).match("POST", "/api/v1/runs/r")
    assert refusal.value.headers["Allow"] == "DELETE, GET"


def test_internal_rpcs_have_no_route() -> None:
    routed = {route.rpc for route in ROUTES.routes}
    internal = {
        name for name, rpc in METHODS.items() if rpc.GetOptions().Extensions[method_rules].access == ACCESS_INTERNAL
    }
    assert f"{RUNS}/DecideApproval" in internal
    assert routed | internal == set(METHODS)
    assert not routed & internal


def test_a_proper_rpc_becomes_a_route() -> None:
    [route] = RouteTable(rpc()).routes
    assert (route.method, route.template, route.path_names) == ("GET", "/api/v1/runs/{run_id}", ("run_id",))


def no_access(called: MethodDescriptorProto, _: FieldDescriptorProto) -> None:
    called.options.ClearExtension(method_rules)


def internal_with_route(called: MethodDescriptorProto, _: FieldDescriptorProto) -> None:
    called.options.Extensions[method_rules].access = ACCESS_INTERNAL


def public_without_route(called: MethodDescriptorProto, _: FieldDescriptorProto) -> None:
    called.options.ClearExtension(http)  # type: ignore[arg-type]


def scope_missing(called: MethodDescriptorProto, _: FieldDescriptorProto) -> None:
    called.options.Extensions[method_rules].scope = options_pb2.SCOPE_UNSPECIFIED


def scope_without_need(called: MethodDescriptorProto, _: FieldDescriptorProto) -> None:
    called.options.Extensions[method_rules].access = ACCESS_PUBLIC


def outside_the_base(called: MethodDescriptorProto, _: FieldDescriptorProto) -> None:
    http_rule(called).get = "/runs/{run_id}"


def part_of_the_body(called: MethodDescriptorProto, _: FieldDescriptorProto) -> None:
    http_rule(called).body = "run_id"


def error_without_status(called: MethodDescriptorProto, _: FieldDescriptorProto) -> None:
    called.options.Extensions[method_rules].errors.append(ERROR_REASON_UNSPECIFIED)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (no_access, "declares no access"),
        (internal_with_route, "has a route if and only if"),
        (public_without_route, "has a route if and only if"),
        (scope_missing, "needs a scope"),
        (scope_without_need, "needs a scope"),
        (outside_the_base, "under /api/v1"),
        (part_of_the_body, "whole body or none"),
        (error_without_status, "no HTTP status"),
    ],
)
def test_an_rpc_that_lacks_something_stops_the_start(change: Change, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        RouteTable(rpc(change))


def test_two_rpcs_on_one_route_stop_the_start() -> None:
    with pytest.raises(ValueError, match="another RPC's route"):
        RouteTable({**rpc(), **rpc()})


def test_a_parameter_beside_a_name_stops_the_start() -> None:
    def literal(called: MethodDescriptorProto, _: FieldDescriptorProto) -> None:
        http_rule(called).get = "/api/v1/runs/latest/{run_id}"

    with pytest.raises(ValueError, match="same place"):
        RouteTable({**rpc(), **rpc(literal)})
