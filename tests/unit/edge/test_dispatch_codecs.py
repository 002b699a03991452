import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, MethodDescriptorProto

from contract.routes import RouteTable
from edge.dispatch import codecs_of
from tests.unit.contract.test_routes import Change, http_rule, rpc
from workflow_api.v1.options_pb2 import field_rules, method_rules


def unknown_parameter(called: MethodDescriptorProto, _: FieldDescriptorProto) -> None:
    http_rule(called).get = "/api/v1/runs/{run_id}/{step_id}"


def no_error_for_the_id(called: MethodDescriptorProto, _: FieldDescriptorProto) -> None:
    called.options.Extensions[method_rules].ClearField("errors")


def no_bounds(_: MethodDescriptorProto, run_id: FieldDescriptorProto) -> None:
    run_id.options.ClearExtension(field_rules)


def a_type_without_bounds(_: MethodDescriptorProto, run_id: FieldDescriptorProto) -> None:
    run_id.type = FieldDescriptorProto.TYPE_DOUBLE


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (unknown_parameter, "has no field step_id"),
        (no_error_for_the_id, "says that run_id is unknown"),
        (no_bounds, "needs bounds"),
        (a_type_without_bounds, "needs bounds"),
    ],
)
def test_an_rpc_whose_request_lacks_something_stops_the_start(change: Change, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        codecs_of(RouteTable(rpc(change)).routes)


def test_the_routes_of_the_api_have_codecs_and_downloads_none_for_their_answer() -> None:
    routes = RouteTable().routes
    codecs = codecs_of(routes)
    assert {route.rpc for route in routes} == set(codecs)
    assert {route.rpc for route in routes if route.streaming} == {
        rpc for rpc, each in codecs.items() if each.response is None
    }
