"""Rules of the protos as a whole."""

import re
from collections.abc import Iterator

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor, MethodDescriptor

from contract.fields import INTEGERS, is_duration, json_name, public_fields, rules_of
from contract.routes import METHODS
from workflow_api.v1 import errors_pb2, options_pb2
from workflow_api.v1.errors_pb2 import ERROR_REASON_INVALID_REQUEST
from workflow_api.v1.options_pb2 import ACCESS_INTERNAL, method_rules

LISTS = [method for method in METHODS.values() if method.name.startswith("List")]
UNIT = re.compile(r".*_(ms|millis|seconds|minutes|hours|days)")
COUNTS = {f"workflow_api.v1.RunUpkeepResponse.{name}" for name in ("usage_hours", "model_usage_days")}
"""Fields that count records, not hours or days."""

NUMBERS = {*INTEGERS, FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT}
PAGED_IN_JSON = {"ListRuns": {"limit", "cursor"}, "ListWorkflows": {"limit", "cursor"}, "ListRunEvents": {"limit"}}


def messages() -> Iterator[Descriptor]:
    found = {}
    left = [each for method in METHODS.values() for each in (method.input_type, method.output_type)]
    left += [
        *errors_pb2.DESCRIPTOR.message_types_by_name.values(),
        *options_pb2.DESCRIPTOR.message_types_by_name.values(),
    ]
    while left:
        message = left.pop()
        if message.full_name not in found and message.file.package.startswith("workflow_api"):
            found[message.full_name] = message
            left += [field.message_type for field in message.fields if field.message_type is not None]
    yield from found.values()


@pytest.mark.parametrize("method", LISTS, ids=[method.name for method in LISTS])
def test_every_list_has_pages(method: MethodDescriptor) -> None:
    asked, answer = method.input_type.fields_by_name, method.output_type.fields_by_name
    size, token, following = asked["page_size"], asked["page_token"], answer["next_page_token"]
    assert size.type == FieldDescriptor.TYPE_INT32
    assert rules_of(size).minimum == 1
    assert rules_of(size).HasField("maximum")
    assert {token.type, following.type} == {FieldDescriptor.TYPE_STRING}
    assert following.has_presence
    assert ERROR_REASON_INVALID_REQUEST in method.GetOptions().Extensions[method_rules].errors


@pytest.mark.parametrize("method", LISTS, ids=[method.name for method in LISTS])
def test_routes_have_the_parameters_of_the_contract_alone(method: MethodDescriptor) -> None:
    paging = {"page_size", "page_token", "next_page_token"}
    fields = [*public_fields(method.input_type), *public_fields(method.output_type)]
    public = {json_name(field, rules) for field, rules in fields if field.name in paging}
    if method.GetOptions().Extensions[method_rules].access == ACCESS_INTERNAL:
        assert public == paging
    else:
        assert public - {"next_cursor"} == PAGED_IN_JSON.get(method.name, set())


def test_lengths_of_time_are_durations_and_their_names_say_no_unit() -> None:
    named = [field for message in messages() for field in message.fields if UNIT.fullmatch(field.name)]
    assert {field.full_name for field in named if field.cpp_type in NUMBERS or is_duration(field)} == COUNTS
