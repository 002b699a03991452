"""Server reflection in its versions v1 and v1alpha, whose messages are equal on the wire."""

from collections.abc import Iterable
from typing import Any, Final

import grpc
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_reflection.v1alpha import reflection, reflection_pb2, reflection_pb2_grpc

_FILE: Final = "grpc/reflection/v1/reflection.proto"
_PACKAGE: Final = "grpc.reflection.v1"
_ALPHA: Final = "grpc.reflection.v1alpha"

SERVICE_NAMES: Final = (f"{_PACKAGE}.ServerReflection", reflection.SERVICE_NAME)
"""The services by which tools ask for the protos: v1, which they try first, and v1alpha."""


def add_reflection(service_names: Iterable[str], server: grpc.Server) -> None:
    """Adds reflection to a server, for `service_names` and for reflection itself."""
    _describe_v1()
    servicer = reflection.ReflectionServicer((*service_names, *SERVICE_NAMES), _Symbols())
    reflection_pb2_grpc.add_ServerReflectionServicer_to_server(servicer, server)
    handler: grpc.RpcMethodHandler[Any, Any] = grpc.stream_stream_rpc_method_handler(
        servicer.ServerReflectionInfo,
        reflection_pb2.ServerReflectionRequest.FromString,
        reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(SERVICE_NAMES[0], {"ServerReflectionInfo": handler}),)
    )


class _Symbols:
    """Descriptor pool that also finds methods as symbols, because `grpcurl describe` asks for them."""

    def __init__(self) -> None:
        self._pool: Any = descriptor_pool.Default()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)

    def FindFileContainingSymbol(self, symbol: str) -> FileDescriptor:  # noqa: N802 - the pool's
        found: FileDescriptor
        try:
            found = self._pool.FindFileContainingSymbol(symbol)
        except KeyError:
            found = self._pool.FindMethodByName(symbol).containing_service.file
        return found


def _describe_v1() -> None:
    """Adds the v1 descriptor, which grpcio-reflection lacks, once in a process; derives it from the v1alpha one."""
    pool: Any = descriptor_pool.Default()
    try:
        pool.FindFileByName(_FILE)
    except KeyError:
        pool.AddSerializedFile(_descriptor_of_v1().SerializeToString())


def _descriptor_of_v1() -> FileDescriptorProto:
    made = FileDescriptorProto()
    reflection_pb2.DESCRIPTOR.CopyToProto(made)
    made.name, made.package = _FILE, _PACKAGE
    for message in made.message_type:
        for field in (each for each in message.field if each.type_name):
            field.type_name = field.type_name.replace(_ALPHA, _PACKAGE)
    for method in made.service[0].method:
        method.input_type = method.input_type.replace(_ALPHA, _PACKAGE)
        method.output_type = method.output_type.replace(_ALPHA, _PACKAGE)
    return made
