"""Default values of absent fields, as the protos state them."""

from functools import cache

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message

from contract.durations import duration_of
from contract.fields import field_of, rules_of


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
    """Returns the number that stands for an absent field; of a length of time, in its unit."""
    rules = rules_of(field)
    if not rules.HasField("default_value"):
        raise ValueError(f"{field.full_name} states no default")
    return rules.default_value
