"""The options of message fields: bounds, and the form that a field has in JSON."""

from collections.abc import Iterator
from typing import Final, cast

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

from workflow_api.v1.options_pb2 import FieldRules, field_rules

TIMESTAMP: Final = "google.protobuf.Timestamp"
DURATION: Final = "google.protobuf.Duration"
INTEGERS: Final = frozenset(
    {
        FieldDescriptor.CPPTYPE_INT32,
        FieldDescriptor.CPPTYPE_INT64,
        FieldDescriptor.CPPTYPE_UINT32,
        FieldDescriptor.CPPTYPE_UINT64,
    }
)


def rules_of(descriptor: FieldDescriptor) -> FieldRules:
    """Returns the bounds and the JSON form of a field."""
    rules: FieldRules = descriptor.GetOptions().Extensions[field_rules]
    return rules


def field_of(message: Message, name: str) -> FieldDescriptor:
    """Returns a field of a message's type."""
    return cast("FieldDescriptor", message.DESCRIPTOR.fields_by_name[name])


def public_fields(message: Descriptor) -> Iterator[tuple[FieldDescriptor, FieldRules]]:
    """Yields the fields that belong to the JSON API, in the order of the proto."""
    for descriptor in message.fields:
        rules = rules_of(descriptor)
        if not rules.internal:
            yield descriptor, rules


def json_name(descriptor: FieldDescriptor, rules: FieldRules) -> str:
    """Returns the name of a field in JSON and in a query."""
    return rules.json_name or descriptor.name


def message_of(descriptor: FieldDescriptor) -> Descriptor:
    """Returns the type of a message field."""
    assert descriptor.message_type is not None
    return descriptor.message_type


def enum_of(descriptor: FieldDescriptor) -> EnumDescriptor:
    """Returns the type of an enum field."""
    assert descriptor.enum_type is not None
    return descriptor.enum_type


def is_map(descriptor: FieldDescriptor) -> bool:
    """Returns whether a field is a protobuf map."""
    return descriptor.message_type is not None and descriptor.message_type.GetOptions().map_entry


def is_timestamp(descriptor: FieldDescriptor) -> bool:
    """Returns whether a field is a point in time."""
    return descriptor.message_type is not None and descriptor.message_type.full_name == TIMESTAMP


def is_duration(descriptor: FieldDescriptor) -> bool:
    """Returns whether a field is a length of time."""
    return descriptor.message_type is not None and descriptor.message_type.full_name == DURATION


def is_enum_list(descriptor: FieldDescriptor) -> bool:
    """Returns whether a field is a list of enum values."""
    return descriptor.is_repeated and descriptor.enum_type is not None


def is_links(message: Descriptor) -> bool:
    """Returns whether a message consists of links alone, which the edge writes whatever the backend sent."""
    return bool(message.fields) and all(rules_of(descriptor).link for descriptor in message.fields)
