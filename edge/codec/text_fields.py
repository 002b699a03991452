"""Readers of the fields that arrive as text: in the path, in the query and in headers.

A reader is made once per field. It returns the field's value, or `None` when it is absent or wrong; what is wrong it
adds to the findings.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.duration_pb2 import Duration

from contract.bounds import NO_NUL, NumberBounds, TextBounds
from contract.durations import duration_of
from contract.fields import INTEGERS, enum_of, is_duration, is_enum_list, is_timestamp, json_name
from contract.json_codec.date_times import parse_date_time
from contract.json_codec.enum_lists import parse_enum_list
from contract.reasons import code_of
from edge.codec.findings import Findings
from edge.codec.query import decoded
from workflow_api.v1.options_pb2 import FieldRules

Value = str | int | Duration | None
PathReader = Callable[[str, Findings], Value]
QueryReader = Callable[[Sequence[str | None], Findings], Value]
HeaderReader = Callable[[Sequence[str], Findings], Value]
Parser = Callable[[str], Any]

ONCE: Final = "must be given only once"

EMPTY_IS_ABSENT: Final = frozenset({"cursor", "q"})
"""Parameters whose empty value counts as none (contract 4.16)."""

UNUSED_ID: Final = "\ufffd"
"""Replaces an id that nothing can have, as one with U+0000: the backend finds nothing by it, in its own order."""

_INTEGER: Final = re.compile(r"-?[0-9]{1,18}")


def violation_of(rules: FieldRules) -> str:
    """Returns the error code of a value outside the field's bounds."""
    return code_of(rules.violation) if rules.violation else "invalid_request"


def path_reader(field: FieldDescriptor, rules: FieldRules) -> PathReader:
    """Returns the reader of an id in the path."""
    read_id = _id_reader(field, rules)
    return lambda segment, findings: read_id(decoded(segment), findings)


def header_reader(rules: FieldRules) -> HeaderReader:
    """Returns the reader of a field that comes from the request header `rules.header`."""
    bounds = TextBounds(rules)
    code = violation_of(rules)

    def read(values: Sequence[str], findings: Findings) -> Value:
        if not values:
            if rules.required:
                findings.add(code, rules.header, "is required")
        elif len(values) > 1:
            findings.add(code, rules.header, ONCE)
        elif not values[0].isascii() or not bounds.hold(values[0]):
            findings.add(code, rules.header, f"must be {bounds.allowed}")
        else:
            return values[0]
        return None

    return read


def query_reader(field: FieldDescriptor, rules: FieldRules, *, is_id: bool) -> QueryReader:
    """Returns the reader of a query parameter.

    Raises:
        ValueError: a query cannot carry the field's type.
    """
    if field.cpp_type in INTEGERS or is_duration(field):
        return _once(field, rules, _number_reader(field, rules))
    if field.type != FieldDescriptor.TYPE_STRING and query_parser(field) is None:
        raise ValueError(
            f"{field.full_name}: a query parameter is a string, an integer, a time, a length of time or a list of enum "
            "values"
        )
    return _once(field, rules, _id_reader(field, rules) if is_id else _text_reader(field, rules))


def query_parser(field: FieldDescriptor) -> Parser | None:
    """Returns what makes a valid text of a query the value of the field; None where the text is the value.

    It raises ValueError with what completes "must be …".
    """
    if is_timestamp(field):
        return parse_date_time
    return partial(parse_enum_list, enum_of(field)) if is_enum_list(field) else None


def _once(field: FieldDescriptor, rules: FieldRules, read_one: Callable[[str | None, Findings], Value]) -> QueryReader:
    name = json_name(field, rules)

    def read(values: Sequence[str | None], findings: Findings) -> Value:
        if len(values) == 1:
            return read_one(values[0], findings)
        findings.add("invalid_request", name, ONCE)
        return None

    return read


def _number_reader(field: FieldDescriptor, rules: FieldRules) -> Callable[[str | None, Findings], Value]:
    bounds = NumberBounds(field, rules)
    name, code = json_name(field, rules), violation_of(rules)
    length_of_time = is_duration(field)

    def read(text: str | None, findings: Findings) -> Value:
        if text is not None and _INTEGER.fullmatch(text) and bounds.hold(int(text)):
            count = bounds.carried(int(text))
            return duration_of(count, rules.unit) if length_of_time else count
        findings.add(code, name, f"must be {bounds.allowed}")
        return None

    return read


def _text_reader(field: FieldDescriptor, rules: FieldRules) -> Callable[[str | None, Findings], Value]:
    bounds = TextBounds(rules)
    name, code = json_name(field, rules), violation_of(rules)

    def read(text: str | None, findings: Findings) -> Value:
        if text is None:
            findings.add(code, name, "must be percent-encoded UTF-8")
        elif "\0" in text:
            findings.add(code, name, NO_NUL)
        elif not text:
            # The wire cannot tell an empty string from an absent one, so an empty filter is judged here.
            if name not in EMPTY_IS_ABSENT:
                findings.add(code, name, "must not be empty")
        elif not bounds.hold(text):
            findings.add(code, name, f"must be {bounds.allowed}")
        else:
            return text
        return None

    return read


def _id_reader(field: FieldDescriptor, rules: FieldRules) -> Callable[[str | None, Findings], Value]:
    bounds = TextBounds(rules)
    name, code = json_name(field, rules), violation_of(rules)

    def read(text: str | None, findings: Findings) -> Value:
        if not text or "\0" in text:
            return UNUSED_ID
        if bounds.hold(text):
            return text
        findings.add(code, name, f"must be {bounds.allowed}")
        return None

    return read
