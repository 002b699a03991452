"""Holds every request to the bounds that its proto states, whoever calls.

The edge tells a JSON caller the same before it calls; here the rule holds for internal callers too.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from backend.errors import ApiError
from workflow_api.v1 import errors_pb2, options_pb2

Problem = tuple[str, str]
Check = Callable[[Any], Iterable[str]]
PlannedField = tuple[FieldDescriptor, options_pb2.FieldRules, tuple[Check, ...], bool]

# Reasons in the order in which they win over one another. (DECISIONS.md, 2)
_PRECEDENCE = (
    errors_pb2.ERROR_REASON_INVALID_REQUEST,
    errors_pb2.ERROR_REASON_INVALID_FILTER,
    errors_pb2.ERROR_REASON_INVALID_CURSOR,
)


def validate(request: Message) -> None:
    """Raises ApiError with every problem of the request at once, or returns."""
    found: dict[int, list[Problem]] = {}
    for reason, problem in _problems(request, ""):
        found.setdefault(reason, []).append(problem)
    for reason in _PRECEDENCE:
        if reason in found:
            problems = found[reason] if reason == errors_pb2.ERROR_REASON_INVALID_REQUEST else ()
            first = found[reason][0]
            message = None if problems else f"{first[0]} {first[1]}."
            raise ApiError(reason, message, problems=problems)


def _problems(message: Message, prefix: str) -> Iterator[tuple[errors_pb2.ErrorReason.ValueType, Problem]]:
    for field, rules, checks, nested in _plan(message.DESCRIPTOR):
        name = rules.header or prefix + field.name
        reason = rules.violation or errors_pb2.ERROR_REASON_INVALID_REQUEST
        value = getattr(message, field.name)
        present = message.HasField(field.name) if field.has_presence else bool(value)
        if not present:
            if rules.required:
                yield reason, (name, "is required")
            continue
        for check in checks:
            for why in check(value):
                yield reason, (name, why)
        if nested:
            for part in value if field.is_repeated else (value,):
                yield from _problems(part, f"{name}.")


@cache
def _plan(descriptor: Descriptor) -> tuple[PlannedField, ...]:
    plan = []
    for field in descriptor.fields:
        rules = field.GetOptions().Extensions[options_pb2.field]
        checks = tuple(_checks(field, rules))
        is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
        nested = field.message_type is not None and not is_map and bool(_plan(field.message_type))
        if checks or nested or rules.required:
            plan.append((field, rules, checks, nested))
    return tuple(plan)


def _checks(field: FieldDescriptor, rules: options_pb2.FieldRules) -> Iterator[Check]:
    if rules.HasField("max_items"):
        yield lambda value: () if len(value) <= rules.max_items else (f"must have at most {rules.max_items} entries",)
    if rules.HasField("keys"):
        yield lambda value: (f"key {why}" for key in value for why in _text_problems(key, rules.keys))
    if rules.HasField("values"):
        is_map = rules.HasField("keys")
        yield lambda value: (
            f"value {why}" for one in (value.values() if is_map else value) for why in _text_problems(one, rules.values)
        )
    if field.is_repeated:
        return
    if rules.raw_json:
        yield lambda value: _json_problems(value, rules.raw_json_kind)
    elif field.type == FieldDescriptor.TYPE_STRING:
        yield lambda value: _text_problems(value, rules)
    elif rules.HasField("minimum") or rules.HasField("maximum"):
        yield lambda value: _number_problems(value, rules)


def _text_problems(value: str, rules: options_pb2.FieldRules) -> Iterator[str]:
    if "\0" in value:
        yield "must not contain U+0000"
    if rules.HasField("min_length") and len(value) < rules.min_length:
        yield f"must have at least {rules.min_length} characters"
    if rules.HasField("max_length") and len(value) > rules.max_length:
        yield f"must have at most {rules.max_length} characters"
    if rules.pattern and not re.fullmatch(rules.pattern, value):
        yield f"must be {rules.pattern_text}"


def _number_problems(value: float, rules: options_pb2.FieldRules) -> Iterator[str]:
    low = rules.minimum if rules.HasField("minimum") else None
    high = rules.maximum if rules.HasField("maximum") else None
    if (low is not None and value < low) or (high is not None and value > high):
        if high is None:
            yield f"must be at least {low}"
        elif low is None:
            yield f"must be at most {high}"
        else:
            yield f"must be from {low} to {high}"


def _json_problems(value: str, kind: str) -> Iterator[str]:
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError):
        yield "must be JSON"
        return
    if kind == "object" and not isinstance(parsed, dict):
        yield "must be an object"
