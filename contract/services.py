"""Table of all RPCs, from the descriptors."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from google.protobuf.descriptor import FileDescriptor, MethodDescriptor

from workflow_api.v1 import (
    audit_pb2,
    caller_pb2,
    definitions_pb2,
    deployment_health_pb2,
    deployment_pb2,
    edge_pb2,
    environments_pb2,
    keys_pb2,
    logs_pb2,
    outputs_pb2,
    passkeys_pb2,
    previews_pb2,
    reviews_pb2,
    run_lists_pb2,
    runs_pb2,
    sessions_pb2,
    uploads_pb2,
    usage_pb2,
    users_pb2,
    webhooks_pb2,
    workflows_pb2,
)

FILES: Final[tuple[FileDescriptor, ...]] = (
    deployment_pb2.DESCRIPTOR,
    deployment_health_pb2.DESCRIPTOR,
    audit_pb2.DESCRIPTOR,
    caller_pb2.DESCRIPTOR,
    keys_pb2.DESCRIPTOR,
    usage_pb2.DESCRIPTOR,
    edge_pb2.DESCRIPTOR,
    workflows_pb2.DESCRIPTOR,
    environments_pb2.DESCRIPTOR,
    definitions_pb2.DESCRIPTOR,
    runs_pb2.DESCRIPTOR,
    run_lists_pb2.DESCRIPTOR,
    reviews_pb2.DESCRIPTOR,
    logs_pb2.DESCRIPTOR,
    outputs_pb2.DESCRIPTOR,
    passkeys_pb2.DESCRIPTOR,
    previews_pb2.DESCRIPTOR,
    uploads_pb2.DESCRIPTOR,
    users_pb2.DESCRIPTOR,
    sessions_pb2.DESCRIPTOR,
    webhooks_pb2.DESCRIPTOR,
)

METHODS: Final[Mapping[str, MethodDescriptor]] = MappingProxyType(
    {
        f"/{service.full_name}/{method.name}": method
        for file in FILES
        for service in file.services_by_name.values()
        for method in service.methods
    }
)
"""Every method by its name on the wire, as `/workflow_api.v1.RunsService/GetRun`."""
