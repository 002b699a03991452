"""Validates requests against the bounds that their protos state, whoever calls.

The edge reports these violations to a JSON caller before it calls; here the bounds hold for internal callers too.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from operator import attrgetter
from typing import Any, Final, NamedTuple

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from backend.common import json_text
from backend.common.errors import ApiError
from backend.common.json_text import NUL_ESCAPE
from contract.bounds import NO_NUL, DurationBounds, ItemBounds, NumberBounds, SizeBounds, TextBounds
from contract.fields import is_duration, is_timestamp, json_name, rules_of
from contract.json_codec.json_scan import named_twice_at, too_deep_at
from workflow_api.v1.errors_pb2 import (
    ERROR_REASON_INVALID_CURSOR,
    ERROR_REASON_INVALID_FILTER,
    ERROR_REASON_INVALID_REQUEST,
    ErrorReason,
)
from workflow_api.v1.options_pb2 import FieldRules

Problem = tuple[str, str]
ProblemsByReason = dict[ErrorReason.ValueType, list[Problem]]
Violation = Callable[[Any], str | None]
Check = Callable[[Any], Iterable[str]]

# What the documentation of google.protobuf.Timestamp allows.
_EARLIEST: Final = -62_135_596_800
_LATEST: Final = 253_402_300_799
_MAX_NANOS: Final = 999_999_999
_DEEPEST: Final = 1_000
"""Nesting of JSON (contract 4.9)."""

# Reasons in the order in which they win over one another. (contract 5.14)
_PRECEDENCE = (ERROR_REASON_INVALID_REQUEST, ERROR_REASON_INVALID_FILTER, ERROR_REASON_INVALID_CURSOR)


class _Field(NamedTuple):
    """The checks of one field: of the whole value, then of its parts; `nested` checks the messages in it."""

    name: str
    spelling: str
    reason: ErrorReason.ValueType
    required: bool
    has_presence: bool
    repeated: bool
    violations: tuple[Violation, ...]
    checks: tuple[Check, ...]
    nested: "_MessageChecks"


class _MessageChecks(NamedTuple):
    """The checks of a message: of all fields, and of all but the texts that only must hold no NUL.

    Such texts are checked together, which takes a quarter of the time in a batch of usage records.
    """

    fields: tuple[_Field, ...]
    fields_but_texts: tuple[_Field, ...]
    texts: Callable[[Any], Iterable[str]] | None


def validate(request: Message) -> None:
    """Raises ApiError with all problems of the request, if there are any."""
    found: ProblemsByReason = {}
    _check(request, _plan(request.DESCRIPTOR), "", found)
    if not found:
        return
    for reason in _PRECEDENCE:
        if reason in found:
            problems = found[reason] if reason == ERROR_REASON_INVALID_REQUEST else ()
            first = found[reason][0]
            message = None if problems else f"{first[0]} {first[1]}."
            raise ApiError(reason, message, problems=problems)


def _check(message: Message, plan: _MessageChecks, prefix: str, found: ProblemsByReason) -> None:
    together = plan.texts is not None and "\0" not in "".join(plan.texts(message))
    fields = plan.fields_but_texts if together else plan.fields
    for name, spelling, reason, required, has_presence, repeated, violations, checks, nested in fields:
        value = None if has_presence and not message.HasField(name) else getattr(message, name)
        if value is None or not (has_presence or value):
            if required:
                found.setdefault(reason, []).append((prefix + spelling, _why_required(message, name, violations)))
            continue
        fits = True
        for violation_of in violations:
            violation = violation_of(value)
            if violation is not None:
                fits = False
                found.setdefault(reason, []).append((prefix + spelling, violation))
        if not fits:
            # The parts of a value that has too many of them are not checked.
            continue
        for check in checks:
            for each in check(value):
                found.setdefault(reason, []).append((prefix + spelling, each))
        if nested.fields:
            for part in value if repeated else (value,):
                _check(part, nested, f"{prefix}{spelling}.", found)


def _why_required(message: Message, name: str, violations: Iterable[Violation]) -> str:
    """Returns the violation of an absent value; for a number, which may be absent or 0, the bounds of its value."""
    value = getattr(message, name)
    if type(value) is int and value == 0:
        for violation_of in violations:
            if (allowed := violation_of(value)) is not None:
                return f"is required, and {allowed}; it is 0"
    return "is required"


@cache
def _plan(descriptor: Descriptor) -> _MessageChecks:
    plan = []
    texts = []
    for field in descriptor.fields:
        rules = rules_of(field)
        violations, checks = tuple(_violations(field, rules)), tuple(_checks(rules))
        message = field.message_type
        nested = _NOTHING if message is None or message.GetOptions().map_entry else _plan(message)
        if violations or checks or nested.fields or rules.required:
            spelling = rules.header or json_name(field, rules)
            reason = rules.violation or ERROR_REASON_INVALID_REQUEST
            repeated, presence = field.is_repeated, field.has_presence
            plan.append(
                _Field(field.name, spelling, reason, rules.required, presence, repeated, violations, checks, nested)
            )
            if _is_unbounded_text(field, rules):
                texts.append(field.name)
    others = tuple(each for each in plan if each.name not in texts)
    return _MessageChecks(tuple(plan), others, attrgetter(*texts) if len(texts) > 1 else None)


_NOTHING: Final = _MessageChecks((), (), None)


def _is_unbounded_text(field: FieldDescriptor, rules: FieldRules) -> bool:
    if field.type != FieldDescriptor.TYPE_STRING or field.is_repeated or rules.required or rules.raw_json:
        return False
    return not (rules.HasField("max_length") or rules.min_length or rules.pattern or rules.HasField("max_bytes"))


def _violations(field: FieldDescriptor, rules: FieldRules) -> Iterator[Violation]:
    if rules.HasField("max_items") and not rules.raw_json:
        items = ItemBounds(rules, "entries")
        yield lambda value: items.violation(len(value))
    if rules.HasField("max_bytes"):
        yield SizeBounds(rules).violation
    if field.is_repeated:
        return
    if is_timestamp(field):
        yield _timestamp_violation
    if rules.raw_json:
        yield _json_violation(rules)
    elif field.type == FieldDescriptor.TYPE_STRING:
        yield TextBounds(rules).violation
    elif is_duration(field):
        if rules.unit:
            yield DurationBounds(rules).violation
    elif rules.HasField("minimum") or rules.HasField("maximum") or rules.choices:
        yield NumberBounds(field, rules).violation


def _checks(rules: FieldRules) -> Iterator[Check]:
    if rules.HasField("keys"):
        yield _check_of_items("key", TextBounds(rules.keys).violation)
    if rules.HasField("values"):
        each = _check_of_items("value", TextBounds(rules.values).violation)
        # The views of a map of protobuf are made in Python.
        yield (lambda value: each([value[name] for name in value])) if rules.HasField("keys") else each


def _check_of_items(what: str, violation: Violation) -> Check:
    return lambda values: [f"{what} {found}" for value in values if (found := violation(value)) is not None]


def _timestamp_violation(value: Timestamp) -> str | None:
    in_range = _EARLIEST <= value.seconds <= _LATEST and 0 <= value.nanos <= _MAX_NANOS
    return None if in_range else "must be a time in the years 1 to 9999"


def _json_violation(rules: FieldRules) -> Violation:
    needs_object = rules.raw_json_kind == "object"
    members = ItemBounds(rules, "members") if rules.HasField("max_items") else None

    def violation(value: str) -> str | None:
        try:
            parsed = json_text.parse(value)
        except (ValueError, RecursionError):
            return "must be JSON"
        # HTTP refuses such bodies too.
        text = value.encode()
        if NUL_ESCAPE.search(text):
            return NO_NUL
        if too_deep_at(text, _DEEPEST) is not None:
            return f"must be nested at most {_DEEPEST:,} deep"
        if named_twice_at(text) is not None:
            return "must not name a member twice"
        if needs_object and not isinstance(parsed, dict):
            return "must be an object"
        return None if members is None else members.violation(len(parsed))

    return violation
