from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_reflection.v1alpha import reflection_pb2

from backend.rpc.reflection import SERVICE_NAMES
from workflow_api_testing import TestBackend, test_backend
from workflow_api_testing.calls import services


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


@pytest.mark.parametrize("service", SERVICE_NAMES)
@pytest.mark.parametrize(
    ("symbol", "file"),
    [
        ("workflow_api.v1.RunsService.GetRun", "workflow_api/v1/runs.proto"),
        ("workflow_api.v1.RUN_STATUS_QUEUED", "workflow_api/v1/runs.proto"),
        ("workflow_api.v1.method_rules", "workflow_api/v1/options.proto"),
        ("google.rpc.BadRequest", "google/rpc/error_details.proto"),
    ],
)
def test_whatever_a_tool_may_describe_is_found(backend: TestBackend, service: str, symbol: str, file: str) -> None:
    answer = ask(backend, service, file_containing_symbol=symbol).file_descriptor_response
    assert FileDescriptorProto.FromString(answer.file_descriptor_proto[0]).name == file


def test_what_does_not_exist_is_not_found(backend: TestBackend) -> None:
    for symbol in ("workflow_api.v1.RunsService.GetRuns", "nothing.Here"):
        answer = ask(backend, SERVICE_NAMES[0], file_containing_symbol=symbol)
        assert answer.error_response.error_code == grpc.StatusCode.NOT_FOUND.value[0]
