"""Which RPCs may be answered on an event loop."""

import pytest
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.descriptor_pb2 import MethodOptions

from contract.fields import public_fields
from contract.routes import FILES
from workflow_api.v1 import options_pb2

METHODS = [method for file in FILES for service in file.services_by_name.values() for method in service.methods]
POINT_READS = [method for method in METHODS if method.GetOptions().Extensions[options_pb2.method_rules].point_read]


def names(methods: list[MethodDescriptor]) -> list[str]:
    return [method.name for method in methods]


@pytest.mark.parametrize("method", POINT_READS, ids=names(POINT_READS))
def test_a_point_read_changes_nothing_and_has_no_pages_for_callers(method: MethodDescriptor) -> None:
    assert method.GetOptions().idempotency_level == MethodOptions.NO_SIDE_EFFECTS
    assert not method.server_streaming
    public = {field.name for field, _ in public_fields(method.input_type)}
    assert {"page_size", "page_token"}.isdisjoint(public)


def test_lists_that_grow_with_what_is_stored_are_no_point_reads() -> None:
    lists = {
        "ListRuns",
        "ListRunEvents",
        "ListOutputs",
        "ListWorkflows",
        "ListKeys",
        "ListUsageRecords",
        "GetKeyMirror",
    }
    assert not lists & set(names(POINT_READS))
    assert {"GetMe", "GetRun", "GetWorkflow"} <= set(names(POINT_READS))
