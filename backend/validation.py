"""Holds every request to the bounds that its proto states, whoever calls.

The edge tells a JSON caller the same before it calls; here the rule holds for internal callers too.
"""

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from backend.errors import ApiError
from workflow_api.v1 import errors_pb2, options_pb2

Problem = tuple[str, str]
Found = dict[errors_pb2.ErrorReason.ValueType, list[Problem]]
Check = Callable[[Any], Sequence[str]]

_TIMESTAMP: Final = Timestamp.DESCRIPTOR.full_name
# What the documentation of google.protobuf.Timestamp allows.
_EARLIEST: Final = -62_135_596_800
_LATEST: Final = 253_402_300_799
_MOST_NANOS: Final = 999_999_999

# Reasons in the order in which they win over one another. (DECISIONS.md, 2)
_PRECEDENCE = (
    errors_pb2.ERROR_REASON_INVALID_REQUEST,
    errors_pb2.ERROR_REASON_INVALID_FILTER,
    errors_pb2.ERROR_REASON_INVALID_CURSOR,
)


class _Field(NamedTuple):
    """What is checked of one field; `nested` are the fields of the messages that it holds."""

    name: str
    spelling: str
    reason: errors_pb2.ErrorReason.ValueType
    required: bool
    has_presence: bool
    repeated: bool
    checks: tuple[Check, ...]
    nested: tuple["_Field", ...]


def validate(request: Message) -> None:
    """Raises ApiError with every problem of the request at once, or returns."""
    found: Found = {}
    _check(request, _plan(request.DESCRIPTOR), "", found)
    if not found:
        return
    for reason in _PRECEDENCE:
        if reason in found:
            problems = found[reason] if reason == errors_pb2.ERROR_REASON_INVALID_REQUEST else ()
            first = found[reason][0]
            message = None if problems else f"{first[0]} {first[1]}."
            raise ApiError(reason, message, problems=problems)


def _check(message: Message, fields: tuple[_Field, ...], prefix: str, found: Found) -> None:
    for name, spelling, reason, required, has_presence, repeated, checks, nested in fields:
        value = getattr(message, name)
        if not (message.HasField(name) if has_presence else value):
            if required:
                found.setdefault(reason, []).append((prefix + spelling, "is required"))
            continue
        for check in checks:
            for why in check(value):
                found.setdefault(reason, []).append((prefix + spelling, why))
        if nested:
            for part in value if repeated else (value,):
                _check(part, nested, f"{prefix}{spelling}.", found)


@cache
def _plan(descriptor: Descriptor) -> tuple[_Field, ...]:
    plan = []
    for field in descriptor.fields:
        rules = field.GetOptions().Extensions[options_pb2.field_rules]
        checks = tuple(_checks(field, rules))
        message = field.message_type
        nested = () if message is None or message.GetOptions().map_entry else _plan(message)
        if checks or nested or rules.required:
            spelling = rules.header or rules.json_name or field.name
            reason = rules.violation or errors_pb2.ERROR_REASON_INVALID_REQUEST
            presence = field.has_presence
            plan.append(
                _Field(field.name, spelling, reason, rules.required, presence, field.is_repeated, checks, nested)
            )
    return tuple(plan)


def _checks(field: FieldDescriptor, rules: options_pb2.FieldRules) -> Iterator[Check]:
    if rules.HasField("max_items"):
        yield _items_check(rules.max_items)
    if rules.HasField("keys"):
        yield _each_check("key", _text_check(rules.keys))
    if rules.HasField("values"):
        each = _each_check("value", _text_check(rules.values))
        yield (lambda value: each(value.values())) if rules.HasField("keys") else each
    if field.is_repeated:
        return
    if field.message_type is not None and field.message_type.full_name == _TIMESTAMP:
        yield _check_timestamp
    if rules.raw_json:
        yield _json_check(rules.raw_json_kind)
    elif field.type == FieldDescriptor.TYPE_STRING:
        yield _text_check(rules)
    elif rules.HasField("minimum") or rules.HasField("maximum"):
        yield _number_check(rules)


def _items_check(most: int) -> Check:
    return lambda value: () if len(value) <= most else (f"must have at most {most} entries",)


def _each_check(what: str, check: Check) -> Check:
    return lambda values: [f"{what} {why}" for one in values for why in check(one)]


def _text_check(rules: options_pb2.FieldRules) -> Check:
    least = rules.min_length
    most = rules.max_length if rules.HasField("max_length") else sys.maxsize
    fits = re.compile(rules.pattern).fullmatch if rules.pattern else None

    def check(value: str) -> Sequence[str]:
        if "\0" not in value and least <= len(value) <= most and (fits is None or fits(value)):
            return ()
        return list(_text_problems(value, rules))

    return check


def _text_problems(value: str, rules: options_pb2.FieldRules) -> Iterator[str]:
    if "\0" in value:
        yield "must not contain U+0000"
    if rules.HasField("min_length") and len(value) < rules.min_length:
        yield f"must have at least {rules.min_length} characters"
    if rules.HasField("max_length") and len(value) > rules.max_length:
        yield f"must have at most {rules.max_length} characters"
    if rules.pattern and not re.fullmatch(rules.pattern, value):
        yield f"must be {rules.pattern_text}"


def _number_check(rules: options_pb2.FieldRules) -> Check:
    low = rules.minimum if rules.HasField("minimum") else None
    high = rules.maximum if rules.HasField("maximum") else None
    if high is None:
        why = f"must be at least {low}"
    elif low is None:
        why = f"must be at most {high}"
    else:
        why = f"must be from {low} to {high}"

    def check(value: float) -> Sequence[str]:
        return () if (low is None or value >= low) and (high is None or value <= high) else (why,)

    return check


def _check_timestamp(value: Timestamp) -> Sequence[str]:
    in_range = _EARLIEST <= value.seconds <= _LATEST and 0 <= value.nanos <= _MOST_NANOS
    return () if in_range else ("must be a time in the years 1 to 9999",)


def _json_check(kind: str) -> Check:
    def check(value: str) -> Sequence[str]:
        try:
            parsed = json.loads(value)
        except (ValueError, RecursionError):
            return ("must be JSON",)
        return ("must be an object",) if kind == "object" and not isinstance(parsed, dict) else ()

    return check
