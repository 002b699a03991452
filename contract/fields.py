"""Fields and enums of the protos: names in JSON, spellings of values, defaults and choices."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Final, cast

from google.protobuf.descriptor import Descriptor, EnumDescriptor, EnumValueDescriptor, FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message

from contract.times import duration_of
from workflow_api.v1.keys_pb2 import CreateKeyRequest, KeyPriority, RotateKeyRequest
from workflow_api.v1.options_pb2 import FieldRules, Scope, enum_spelling, field_rules

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

_TEMPLATE_NAME: Final = re.compile(r"\{([a-z0-9_]+)\}")


def names_in(template: str) -> tuple[str, ...]:
    """Returns the names in braces of a path template, as `/api/v1/runs/{run_id}` of a route or a link, in order."""
    return tuple(_TEMPLATE_NAME.findall(template))


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
    """Returns whether a message consists of links alone, which the edge writes itself."""
    return bool(message.fields) and all(rules_of(descriptor).link for descriptor in message.fields)


def spellings(enum: EnumDescriptor) -> dict[int, str | None]:
    """Returns the JSON value of every number of an enum; the unspecified one is null."""
    return {value.number: _spelling(enum, value) if value.number else None for value in enum.values}


def _spelling(enum: EnumDescriptor, value: EnumValueDescriptor) -> str:
    stated: str = value.GetOptions().Extensions[enum_spelling]
    return stated or value.name.removeprefix(_prefix(enum)).lower()


def _prefix(enum: EnumDescriptor) -> str:
    # Buf's naming rule gives the zero value the enum's prefix and `UNSPECIFIED`.
    return enum.values_by_number[0].name.removesuffix("UNSPECIFIED")


SCOPES: Final[Mapping[str, Scope.ValueType]] = MappingProxyType(
    {text: Scope.ValueType(number) for number, text in spellings(Scope.DESCRIPTOR).items() if text}
)
"""Every scope by its spelling, in the contract's order."""

SCOPE_SPELLINGS: Final[Mapping[int, str]] = MappingProxyType({number: text for text, number in SCOPES.items()})
"""The spelling of every scope by its number."""


PRIORITY_SPELLINGS: Final = spellings(KeyPriority.DESCRIPTOR)
"""The spelling of every priority of keys by its number."""

PRIORITIES: Final[Mapping[str, KeyPriority.ValueType]] = MappingProxyType(
    {text: KeyPriority.ValueType(number) for number, text in PRIORITY_SPELLINGS.items() if text}
)
"""Every priority of keys by its spelling."""


def parse_enum_list(enum: EnumDescriptor, text: str) -> list[int]:
    """Returns the numbers of the values that a text names, each once, in the order of the enum.

    Raises:
        ValueError: the text names anything else; the message completes "must be …".
    """
    numbers = {spelling: number for number, spelling in spellings(enum).items() if spelling is not None}
    named = {part.strip() for part in text.split(",")}
    if not named <= numbers.keys():
        raise ValueError(f"a comma-separated list of {', '.join(numbers)}")
    return sorted(numbers[name] for name in named)


def given_or_default(request: Message, name: str) -> int:
    """Returns a number of the request, or the `default_value` of its field if it is absent."""
    if request.HasField(name):
        return int(getattr(request, name))
    return default_value(field_of(request, name))


def given_or_default_duration(request: Message, name: str) -> Duration:
    """Returns a length of time of the request, or the `default_value` of its field if it is absent."""
    if request.HasField(name):
        given: Duration = getattr(request, name)
        return given
    field = field_of(request, name)
    return duration_of(default_value(field), rules_of(field).unit)


@cache
def default_value(field: FieldDescriptor) -> int:
    """Returns the number that stands for an absent field; of a duration, in the field's unit."""
    rules = rules_of(field)
    if not rules.HasField("default_value"):
        raise ValueError(f"{field.full_name} states no default")
    return rules.default_value


def _choices(message: Descriptor, field: str) -> Sequence[int]:
    return tuple(rules_of(message.fields_by_name[field]).choices)


EXPIRY_DAYS: Final = _choices(CreateKeyRequest.DESCRIPTOR, "lifetime")
"""Days after which a key may expire."""

OVERLAP_HOURS: Final = _choices(RotateKeyRequest.DESCRIPTOR, "overlap")
"""Hours for which a rotated secret may stay valid."""
