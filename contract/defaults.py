"""The values that stand for absent fields, as the protos state them."""

from functools import cache

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from workflow_api.v1 import options_pb2


def given_or_default(request: Message, name: str) -> int:
    """A number of the request, or where it is absent the `default_value` of its field."""
    if request.HasField(name):
        return int(getattr(request, name))
    return default_value(request.DESCRIPTOR.fields_by_name[name])


@cache
def default_value(field: FieldDescriptor) -> int:
    """The number that a field counts as where none was ever given."""
    rules = field.GetOptions().Extensions[options_pb2.field_rules]
    if not rules.HasField("default_value"):
        raise ValueError(f"{field.full_name} states no default")
    return rules.default_value
