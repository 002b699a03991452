"""Accessors of the options that protos state of fields, methods and enum values."""

from collections.abc import Iterator
from typing import Final

from google.protobuf.descriptor import Descriptor, EnumDescriptor, EnumValueDescriptor, FieldDescriptor

from workflow_api.v1.errors_pb2 import ErrorReason
from workflow_api.v1.options_pb2 import FieldRules, enum_spelling, field_rules

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
    """Return the bounds and the JSON form of a field."""
    rules: FieldRules = descriptor.GetOptions().Extensions[field_rules]
    return rules


def json_name(descriptor: FieldDescriptor, rules: FieldRules) -> str:
    """Return the name of a field in JSON and in a query."""
    return rules.json_name or descriptor.name


def public_fields(message: Descriptor) -> Iterator[tuple[FieldDescriptor, FieldRules]]:
    """Return the fields that belong to the JSON API, in the order of the proto."""
    for descriptor in message.fields:
        rules = rules_of(descriptor)
        if not rules.internal:
            yield descriptor, rules


def message_of(descriptor: FieldDescriptor) -> Descriptor:
    """Return the type of a message field."""
    assert descriptor.message_type is not None
    return descriptor.message_type


def enum_of(descriptor: FieldDescriptor) -> EnumDescriptor:
    """Return the type of an enum field."""
    assert descriptor.enum_type is not None
    return descriptor.enum_type


def is_timestamp(descriptor: FieldDescriptor) -> bool:
    """Tell whether a field is a point in time."""
    return descriptor.message_type is not None and descriptor.message_type.full_name == TIMESTAMP


def is_enum_list(descriptor: FieldDescriptor) -> bool:
    """Tell whether a field is a list of enum values."""
    return descriptor.is_repeated and descriptor.enum_type is not None


def is_map(descriptor: FieldDescriptor) -> bool:
    """Tell whether a field is a protobuf map."""
    return descriptor.message_type is not None and descriptor.message_type.GetOptions().map_entry


def is_links(message: Descriptor) -> bool:
    """Tell whether a message holds links only, which the edge makes itself."""
    return bool(message.fields) and all(rules_of(descriptor).link for descriptor in message.fields)


def spellings(enum: EnumDescriptor) -> dict[int, str | None]:
    """Return the JSON value of every number of an enum; the unspecified one is null."""
    return {value.number: _spelling(enum, value) if value.number else None for value in enum.values}


def _spelling(enum: EnumDescriptor, value: EnumValueDescriptor) -> str:
    stated: str = value.GetOptions().Extensions[enum_spelling]
    return stated or value.name.removeprefix(_prefix(enum)).lower()


def _prefix(enum: EnumDescriptor) -> str:
    # Buf's naming rule gives the zero value the enum's prefix and `UNSPECIFIED`.
    return enum.values_by_number[0].name.removesuffix("UNSPECIFIED")


def code_of(reason: int) -> str:
    """Return the JSON error code of an ErrorReason."""
    return ErrorReason.Name(ErrorReason.ValueType(reason)).removeprefix("ERROR_REASON_").lower()
