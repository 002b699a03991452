"""What the wrapper of every method logs of a failure."""

from typing import Any

import pytest

from backend.rpc.interceptors import handlers_of
from contract.metadata import REQUEST_ID
from edge.channel.context import InProcessContext
from workflow_api.v1 import edge_pb2

SERVICE = edge_pb2.DESCRIPTOR.services_by_name["EdgeService"]
RECORD_USAGE = "/workflow_api.v1.EdgeService/RecordUsage"


def _fail(*_: Any) -> None:
    raise OSError("the disk is full")


Failing = type("Failing", (), {method.name: _fail for method in SERVICE.methods})


@pytest.mark.parametrize(
    ("metadata", "request_id"), [((), ""), (((REQUEST_ID, "req_1"),), "req_1")], ids=["none", "one"]
)
def test_a_failure_names_the_request_that_it_belongs_to_if_there_is_one(
    caplog: pytest.LogCaptureFixture, metadata: tuple[tuple[str, str], ...], request_id: str
) -> None:
    handlers_of(Failing(), SERVICE)[RECORD_USAGE].call(edge_pb2.RecordUsageRequest(), InProcessContext(metadata, 1.0))
    assert caplog.messages == ["workflow_api.v1.EdgeService.RecordUsage failed"]
    assert caplog.records[0].__dict__["request_id"] == request_id
