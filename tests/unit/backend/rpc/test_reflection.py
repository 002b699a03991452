import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_reflection.v1alpha import reflection_pb2

from backend.rpc.reflection import SERVICE_NAMES
from workflow_api_testing import TestBackend, test_backend
from workflow_api_testing.descriptors import services

BUF = Path(sys.executable).parent / "buf"


@pytest.fixture(scope="module")
def backend() -> Iterator[TestBackend]:
    with test_backend() as backend:
        yield backend


def ask(backend: TestBackend, service: str, **request: Any) -> Any:
    with grpc.insecure_channel(backend.address) as channel:
        call = channel.stream_stream(
            f"/{service}/ServerReflectionInfo",
            reflection_pb2.ServerReflectionRequest.SerializeToString,
            reflection_pb2.ServerReflectionResponse.FromString,
        )
        [answer] = list(call(iter([reflection_pb2.ServerReflectionRequest(**request)])))
        return answer


@pytest.mark.parametrize("service", SERVICE_NAMES)
def test_both_versions_list_every_service(backend: TestBackend, service: str) -> None:
    listed = {each.name for each in ask(backend, service, list_services="").list_services_response.service}
    assert listed == {each.full_name for each in services()} | {*SERVICE_NAMES, "grpc.health.v1.Health"}


@pytest.mark.parametrize("service", SERVICE_NAMES)
def test_every_service_that_is_listed_is_described(backend: TestBackend, service: str) -> None:
    for each in ask(backend, service, list_services="").list_services_response.service:
        answer = ask(backend, service, file_containing_symbol=each.name)
        files = [FileDescriptorProto.FromString(data) for data in answer.file_descriptor_response.file_descriptor_proto]
        assert each.name in {f"{file.package}.{found.name}" for file in files for found in file.service}


def test_buf_curl_calls_with_its_defaults(backend: TestBackend) -> None:
    workflow_id = backend.add_workflow("Digest")
    socket = backend.address.removeprefix("unix:")
    called = subprocess.run(
        [
            *(BUF, "curl", "--protocol", "grpc", "--http2-prior-knowledge", "--unix-socket", socket),
            *("--data", "{}", "http://localhost/workflow_api.v1.WorkflowsService/ListWorkflows"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert called.returncode == 0, called.stderr
    assert [item["workflowId"] for item in json.loads(called.stdout)["items"]] == [workflow_id]
