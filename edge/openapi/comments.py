"""The comments of the protos, which the generated modules leave out."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Final

from google.protobuf.descriptor_pb2 import DescriptorProto, EnumDescriptorProto, FileDescriptorProto, FileDescriptorSet

# Field numbers of descriptor.proto, of which the paths of source locations consist.
_FILE_MESSAGES, _FILE_ENUMS, _FILE_SERVICES = 4, 5, 6
_MESSAGE_FIELDS, _NESTED_MESSAGES, _NESTED_ENUMS = 2, 3, 4
_ENUM_VALUES, _SERVICE_METHODS = 2, 2

_Path = tuple[int, ...]
# References to the contract are for maintainers of the protos.
_REFERENCE: Final = re.compile(r"\s*\(contract [0-9][^)]*\)")


@cache
def comments() -> Mapping[str, str]:
    """Returns the comment of every message, field, enum, enum value, service and method by its full name.

    The full name of an enum value contains that of its enum. References to the contract are left out.
    """
    data = resources.files("workflow_api.v1").joinpath("descriptors.binpb").read_bytes()
    return {
        name: text
        for file in FileDescriptorSet.FromString(data).file
        for name, text in _file_comments(file)
        if file.package == "workflow_api.v1"
    }


def _file_comments(file: FileDescriptorProto) -> Iterator[tuple[str, str]]:
    said = {tuple(place.path): place.leading_comments for place in file.source_code_info.location}
    for path, name in _names(file):
        text = _REFERENCE.sub("", said.get(path, "")).strip()
        yield name, re.sub(r"[ \t]*\n[ \t]*", " ", text)


def _names(file: FileDescriptorProto) -> Iterator[tuple[_Path, str]]:
    for index, message in enumerate(file.message_type):
        yield from _message_comments(message, (_FILE_MESSAGES, index), f"{file.package}.{message.name}")
    for index, enum in enumerate(file.enum_type):
        yield from _enum_comments(enum, (_FILE_ENUMS, index), f"{file.package}.{enum.name}")
    for index, service in enumerate(file.service):
        name = f"{file.package}.{service.name}"
        yield (_FILE_SERVICES, index), name
        for number, method in enumerate(service.method):
            yield (_FILE_SERVICES, index, _SERVICE_METHODS, number), f"{name}.{method.name}"


def _message_comments(message: DescriptorProto, path: _Path, name: str) -> Iterator[tuple[_Path, str]]:
    yield path, name
    for index, field in enumerate(message.field):
        yield (*path, _MESSAGE_FIELDS, index), f"{name}.{field.name}"
    for index, nested in enumerate(message.nested_type):
        yield from _message_comments(nested, (*path, _NESTED_MESSAGES, index), f"{name}.{nested.name}")
    for index, enum in enumerate(message.enum_type):
        yield from _enum_comments(enum, (*path, _NESTED_ENUMS, index), f"{name}.{enum.name}")


def _enum_comments(enum: EnumDescriptorProto, path: _Path, name: str) -> Iterator[tuple[_Path, str]]:
    yield path, name
    for index, value in enumerate(enum.value):
        yield (*path, _ENUM_VALUES, index), f"{name}.{value.name}"
